import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { type Api, startApi } from "./api-server.ts";
import { CliProject } from "./cli-project.ts";
import {
  CAUGHT_UP,
  COPIED,
  endStep,
  FITTING,
  lookBefore,
  publishShards,
  say,
  SPREAD,
  takeMoveStep,
  takeSplitStep,
} from "./shard-hand.ts";

const FAILED = { error: { class: "user", message: "no luck" }, final: true };

let api: Api;
let client: Client;
let project: CliProject;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
  project = new CliProject();
  await publishShards(client, SPREAD);
  await client.call("changeRouting", { body: { default_shard: "a" } });
});

afterEach(async () => {
  await project.remove();
  await api.close();
});

const pawl = (...args: string[]) => project.launch(args, { PAWL_URL: api.url });

/** A split whose tail is caught up, and that tail. */
async function caughtUp() {
  const body = { source: "a", target: "b", tenants: ["acme"] };
  const { split_id: split } = await client.call("planSplit", { body });
  await endStep(client, await takeSplitStep(client, "check"), FITTING);
  await client.call("startDualWrite", { params: { split } });
  await endStep(client, await takeSplitStep(client, "arm"));
  await client.call("runSplitBackfill", { params: { split } });
  await endStep(client, await takeSplitStep(client, "copy"), COPIED);
  const tail = await takeSplitStep(client, "tail");
  await say(client, tail, CAUGHT_UP, "caught_up");
  return { split, tail };
}

/** A split whose target serves, and the tail of the way back. */
async function cutOver() {
  const { split, tail } = await caughtUp();
  await client.call("cutOverSplit", { params: { split } });
  await endStep(client, tail, CAUGHT_UP);
  const cutover = await takeSplitStep(client, "cutover");
  await say(client, cutover, {}, "commit");
  await endStep(client, cutover);
  return { split, reverse: await takeSplitStep(client, "reverse") };
}

describe("waiting for a split", () => {
  test("ends when a rollback after the cutover could not be had", async () => {
    const { split, reverse } = await cutOver();
    const waiting = pawl("split", "rollback", split, "--wait");
    await waiting.said("rollback is wanted");
    await endStep(client, reverse);
    await endStep(client, await takeSplitStep(client, "cutback"), {}, FAILED);
    const { code, stderr } = await waiting.ended;
    expect({ code, stderr }).toMatchObject({ code: 1 });
    expect(stderr).toContain("no luck");
  });

  test("ends when a cutover could not be had", async () => {
    const { split, tail } = await caughtUp();
    const waiting = pawl("split", "cutover", split, "--wait");
    await waiting.said("cutover is wanted");
    await endStep(client, tail, CAUGHT_UP);
    await endStep(client, await takeSplitStep(client, "cutover"), {}, FAILED);
    expect(await waiting.ended).toMatchObject({ code: 1 });
  });

  test("ends when a change of the schema gave way to a rollback, and does not say that it was made", async () => {
    const { split } = await caughtUp();
    const waiting = pawl("split", "ddl", split, "alter table users add x", "--wait");
    await waiting.said("ddl is wanted");
    await client.call("rollBackSplit", { params: { split } });
    const { code, stderr } = await waiting.ended;
    expect({ code, stderr }).toMatchObject({ code: 1 });
  });
});

describe("waiting for a move", () => {
  test("ends when all that is left was quarantined", async () => {
    const { move_id } = await client.call("planMove", { body: { move: "spread" } });
    const waiting = pawl("move", "start", move_id, "--wait");
    await waiting.said("is RUNNING");
    const bounds = [{ upper: null, rows: 3 }];
    await endStep(client, await takeMoveStep(client, "survey"), { bounds, sealed: true });
    await lookBefore(client);
    await endStep(client, await takeMoveStep(client, "copy"), {}, FAILED);
    const { code, stderr } = await waiting.ended;
    expect({ code, stderr }).toMatchObject({ code: 1 });
    expect(stderr).toContain("1 segment was quarantined");
  });

  test("ends when a survey failed", async () => {
    const { move_id } = await client.call("planMove", { body: { move: "spread" } });
    const waiting = pawl("move", "start", move_id, "--wait");
    await waiting.said("is RUNNING");
    await endStep(client, await takeMoveStep(client, "survey"), {}, FAILED);
    expect(await waiting.ended).toMatchObject({ code: 1 });
  });
});
