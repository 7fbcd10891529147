import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Problem } from "../../src/work/operation.ts";
import { type Api, checkAnswer, startApi } from "./api-server.ts";
import { publishSyncs, seeHeads, TRANSFERS } from "./sync-hand.ts";

const BASE = "/api/v1/syncs";
const MAIN = `${BASE}/${encodeURIComponent("transfers@network=main,wallet=0xa")}`;

let api: Api;

beforeAll(async () => {
  api = await startApi();
  await publishSyncs(api.client, TRANSFERS, {
    ...TRANSFERS,
    name: "plain",
    source: "plain",
    has: { head: true, hash: false, verify: false },
  });
  await seeHeads(api.client, "transfers", { main: 1_004 });
});

afterAll(() => api.close());

async function refused(method: string, path: string, body?: unknown) {
  const headers = { "idempotency-key": crypto.randomUUID() };
  const response = await api.send(method, path, body === undefined ? {} : { body, headers });
  await checkAnswer(method, path.split("?")[0] ?? "", response.clone());
  expect(response.ok).toBe(false);
  return Problem.parse(await response.json());
}

const add = (fields: object) => ({
  name: "transfers",
  target: { network: "main", wallet: "0xz" },
  ...fields,
});

describe("a wish that makes no sense", () => {
  test.each<[string, object, number, string, string]>([
    ["names no sync", { name: undefined }, 400, "INPUT_INVALID", "body.name is missing"],
    ["names one nearly", { name: "transfer" }, 404, "SYNC_NOT_FOUND", "did you mean transfers?"],
    ["names none there is", { name: "x" }, 404, "SYNC_NOT_FOUND", "There is no sync named"],
    ["has no target", { target: {} }, 400, "INPUT_INVALID", "must have 1 to 16 fields"],
    ["has a list", { target: ["a"] }, 400, "INPUT_INVALID", "body.target must be a record"],
    ["has a bad field", { target: { "a b": "c" } }, 400, "INPUT_INVALID", "is a name that must be"],
    ["has a number", { target: { a: 1 } }, 400, "INPUT_INVALID", "body.target.a must be a string"],
    [
      "is too long",
      { target: { network: "a".repeat(300), wallet: "b".repeat(300) } },
      400,
      "INPUT_INVALID",
      "must have at most 600 characters in all",
    ],
    ["lacks the source", { target: { netwrok: "a" } }, 400, "INPUT_INVALID", "no field"],
    ["ends early", { from_block: 9, to_block: 8 }, 400, "INPUT_INVALID", "ends before that, at 8"],
    ["begins late", { to_block: 8.5 }, 400, "INPUT_INVALID", "body.to_block must be an integer"],
    ["has a text", { from_block: "1" }, 400, "INPUT_INVALID", "body.from_block must be a number"],
    ["is below 0", { from_block: -1 }, 400, "INPUT_INVALID", "body.from_block must be at least 0"],
    ["is too far", { from_block: 2 ** 53 }, 400, "INPUT_INVALID", "body.from_block must be"],
    ["runs none", { max_parallel: 0 }, 400, "INPUT_INVALID", "max_parallel must be at least 1"],
    ["is too urgent", { priority: 101 }, 400, "INPUT_INVALID", "priority must be at most 100"],
    ["has more", { from: 1 }, 400, "INPUT_INVALID", "is not a known field"],
    [
      "is there",
      { target: { network: "main", wallet: "0xa" } },
      409,
      "NAME_TAKEN",
      "syncs network=main,wallet=0xa already",
    ],
  ])("to add one that %s is refused", async (_, fields, status, code, sentence) => {
    const problem = await refused("POST", BASE, add(fields));
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test.each<[string, object, number, string, string]>([
    ["repair", {}, 400, "INPUT_INVALID", "body.from_block is missing"],
    ["repair", { from_block: 9, to_block: 3 }, 400, "INPUT_INVALID", "at block 9 and ends before"],
    ["repair", { from_block: 0, to_block: "9" }, 400, "INPUT_INVALID", "body.to_block must be"],
    [
      "repair",
      { from_block: 1_000, to_block: 2_000 },
      400,
      "SELECTION_EMPTY",
      "has 0 to 999: nothing of the range is there",
    ],
    ["verify", { from_block: 5_000 }, 400, "SELECTION_EMPTY", "has 0 to 999"],
    ["verify", {}, 400, "SELECTION_EMPTY", "nothing from 0 to 999 is complete"],
    ["verify", { repair: "yes" }, 400, "INPUT_INVALID", "body.repair must be a boolean"],
    ["retune", {}, 400, "INPUT_INVALID", "body.max_parallel must be given, or priority"],
    ["pause", { expected_state_version: 99 }, 412, "STATE_VERSION_MISMATCH", "not 99"],
    ["pause", { reason: "" }, 400, "INPUT_INVALID", "body.reason must have at least 1 characters"],
    ["resume", {}, 409, "STATE_ILLEGAL", "resuming is possible only while it is PAUSED"],
    ["segments/0/retry", {}, 409, "STATE_ILLEGAL", "a retry is possible only while it is QUAR"],
    ["segments/0/exclude", {}, 400, "INPUT_INVALID", "body.reason is missing"],
    ["segments/99/retry", {}, 404, "SEGMENT_NOT_FOUND", "There is no segment 99"],
    ["segments/one/retry", {}, 400, "INPUT_INVALID", "must be the index of a segment"],
    ["segments/-1/exclude", { reason: "x" }, 400, "INPUT_INVALID", "must be the index of a"],
  ])("to %s with %j is refused", async (action, body, status, code, sentence) => {
    const problem = await refused("POST", `${MAIN}/${action}`, body);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test("to verify what has no function for it is refused", async () => {
    const path = `${BASE}/${encodeURIComponent("plain@network=main,wallet=0xa")}/verify`;
    expect(await refused("POST", path, {})).toMatchObject({
      code: "STATE_ILLEGAL",
      detail: expect.stringContaining("has no function verify") as string,
    });
  });

  test("to add without a key is refused", async () => {
    const response = await api.send("POST", BASE, { body: add({}) });
    expect(Problem.parse(await response.json())).toMatchObject({ code: "IDEMPOTENCY_KEY_MISSING" });
  });
});

describe("a question that makes no sense", () => {
  test.each<[string, number, string, string]>([
    ["?status=DONE", 400, "INPUT_INVALID", '"FAILED", not "DONE"'],
    ["?target=mainnet", 400, "INPUT_INVALID", '"mainnet" is no target'],
    ["?target=netwrok%3Dmain", 400, "INPUT_INVALID", "(perhaps network is meant)"],
    ["?name=transferz", 404, "SYNC_NOT_FOUND", "did you mean transfers?"],
    ["?name=a%20b", 400, "INPUT_INVALID", "query.name must be"],
    ["?cursor=nothing", 400, "INPUT_INVALID", "is not one that a page of this list ended with"],
    ["?limit=0", 400, "INPUT_INVALID", "query.limit must be at least 1"],
    ["/sources?name=nope", 404, "SYNC_NOT_FOUND", "There is no sync named"],
    ["/sources?cursor=WzFd", 400, "INPUT_INVALID", "is not one that a page"],
    ["/01HZ0000000000000000000000", 404, "SYNC_NOT_FOUND", "`pawl sync list` shows"],
    ["/transfers%40network%3Dmain", 404, "SYNC_NOT_FOUND", "transfers@network=main"],
    ["/transfers%40", 400, "INPUT_INVALID", "is no target"],
    ["/transferz%40network%3Dmain", 404, "SYNC_NOT_FOUND", "did you mean transfers?"],
    ["/%E0%A4%A", 404, "SYNC_NOT_FOUND", "There is no sync"],
    ["/nope/segments", 404, "SYNC_NOT_FOUND", "There is no sync"],
    ["/nope/quarantine", 404, "SYNC_NOT_FOUND", "There is no sync"],
  ])("such as %s is refused", async (path, status, code, sentence) => {
    const problem = await refused("GET", `${BASE}${path}`);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test.each<[string, number, string, string]>([
    ["segments?status=DONE", 400, "INPUT_INVALID", "query.status"],
    ["segments?verification=DONE", 400, "INPUT_INVALID", "query.verification"],
    ["segments?from_block=x", 400, "INPUT_INVALID", "must be a block, an integer from 0"],
    ["segments?from_block=1.5", 400, "INPUT_INVALID", "query.from_block must be an integer"],
    ["segments?from_block=9&to_block=8", 400, "INPUT_INVALID", "ends before that, at 8"],
    ["segments/99", 404, "SEGMENT_NOT_FOUND", "has no segment 99"],
    ["segments/x", 400, "INPUT_INVALID", "must be the index of a segment"],
    ["segments/99999999999999999999", 400, "INPUT_INVALID", "path.segment_index must be"],
  ])("such as %s of a sync is refused", async (path, status, code, sentence) => {
    const problem = await refused("GET", `${MAIN}/${path}`);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test("nothing of all that was a mistake of the server", () => {
    expect(api.logged).toEqual([]);
  });
});
