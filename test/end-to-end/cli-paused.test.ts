import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, startApi } from "./api-server.ts";
import { workOnce, workThrough } from "./backfill-hand.ts";
import { CliProject } from "./cli-project.ts";

const days = { type: "daily", start: "2025-01-01", end: "2025-01-05" } as const;
const SPECS = [
  { kind: "asset", asset_key: "letters", partitions: days },
  {
    kind: "asset",
    asset_key: "balance",
    partitions: days,
    upstream: [{ asset_key: "balance", mapping: { type: "offset", by: -1 } }],
  },
];

let api: Api;
let project: CliProject;

beforeEach(async () => {
  api = await startApi();
  project = new CliProject();
  const body = { specs: SPECS } as unknown as PartInput<"publishDefinitions", "body">;
  await api.client.call("publishDefinitions", { body });
});

afterEach(async () => {
  await project.remove();
  await api.close();
});

const pawl = (...args: string[]) => project.launch(args, { PAWL_URL: api.url });

async function created(asset: string): Promise<string> {
  const { backfill_id } = await api.client.call("createBackfill", {
    body: { assets: [asset], selector: { type: "all" }, chunk_size: 1, max_concurrent_runs: 1 },
  });
  return backfill_id;
}

async function change(
  operation: "pauseBackfill" | "resumeBackfill",
  backfill_id: string,
  reason?: string,
): Promise<void> {
  const body = reason === undefined ? {} : { reason };
  await api.client.call(operation, { params: { backfill_id }, body });
}

const works = (asset: string) => ({ assets: [asset], verdict: () => null });
const fails = (asset: string) => ({ assets: [asset], verdict: () => "no luck" });

describe("waiting for a backfill that is paused", () => {
  test("I99: says why it does not go on and what lets it, and waits until then", async () => {
    const id = await created("letters");
    await change("pauseBackfill", id, "lunch");
    const short = id.slice(-8);
    const paused = `${short} is paused (lunch), until \`pawl backfill resume ${short}\``;
    const waiting = pawl("backfill", "watch", id);
    const machine = pawl("backfill", "watch", id, "--json");
    await waiting.said(`0/4 partitions (0%), ${paused}\n`);
    await machine.said(`${JSON.stringify({ warning: paused })}\n`);
    await change("resumeBackfill", id);
    await workThrough(api.client, id, works("letters"));
    expect(await waiting.ended).toMatchObject({ code: 0 });
    expect(await machine.ended).toMatchObject({ code: 0 });
  });

  test("I99: ends as a failure when something has failed", async () => {
    const id = await created("letters");
    const waiting = pawl("backfill", "watch", id);
    while ((await workOnce(api.client, fails("letters"))) === 0);
    await change("pauseBackfill", id, "what is this?");
    const { code, stderr } = await waiting.ended;
    expect({ code, stderr }).toMatchObject({ code: 1 });
    expect(stderr).toContain("was paused: what is this?. The first error: no luck.");
  });

  test("ends when what is made oldest first cannot go on, in a client as well", async () => {
    const id = await created("balance");
    const waiting = pawl("backfill", "watch", id);
    const waited = api.client.backfills.waitFor(id);
    while ((await workOnce(api.client, fails("balance"))) === 0);
    const { code, stderr } = await waiting.ended;
    expect({ code, stderr }).toMatchObject({ code: 1 });
    expect(stderr).toContain("was paused: ");
    expect(await waited).toMatchObject({ state: "PAUSED", partitions_failed: 1 });
  });
});
