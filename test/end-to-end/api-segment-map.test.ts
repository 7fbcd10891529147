import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Api, startApi } from "./api-server.ts";
import { endSegments, publishSyncs, seeHeads, takeSegments, TRANSFERS } from "./sync-hand.ts";

const MAIN = { params: { sync: "transfers@network=main,wallet=0xa" } };

let api: Api;

beforeEach(async () => {
  api = await startApi();
});

afterEach(() => api.close());

describe("the map of a sync's segments", () => {
  test("has nothing before the plan, then a cell for each segment with where it stands", async () => {
    const { client } = api;
    await publishSyncs(client, TRANSFERS);
    expect(await client.call("mapSegments", MAIN)).toMatchObject({ segments: 0, cells: [] });
    await seeHeads(client, "transfers", { main: 1_004 });
    const [first, second] = await takeSegments(client, "transfers", 2);
    if (first === undefined || second === undefined) throw new Error("Two were taken.");
    const error = { class: "user", message: "No such block." };
    await endSegments(client, [first], {
      report: {
        quarantined: [
          { block: 40, error },
          { block: 60, error },
        ],
      },
    });
    const { items } = await client.call("listQuarantine");
    const excluded = items[1]?.segment_index ?? -1;
    await client.call("excludeSegment", {
      params: { ...MAIN.params, segment_index: excluded },
      body: { reason: "the node lost it" },
    });
    const map = await client.call("mapSegments", MAIN);
    expect(map.segments).toBe(14);
    expect(map.cells.slice(0, 6)).toMatchObject([
      { from_block: 0, to_block: 39, segments: 1, status: "COMPLETE" },
      {
        from_block: 40,
        to_block: 40,
        status: "QUARANTINED",
        segment_index: items[0]?.segment_index,
      },
      { from_block: 41, to_block: 59, status: "COMPLETE" },
      { from_block: 60, to_block: 60, status: "EXCLUDED", segment_index: excluded },
      { from_block: 61, to_block: 99, status: "COMPLETE" },
      { from_block: 100, to_block: 199, status: "RUNNING", segment_index: 1 },
    ]);
    expect(map.counts).toEqual({
      COMPLETE: 3,
      QUARANTINED: 1,
      EXCLUDED: 1,
      RUNNING: 1,
      PENDING: 8,
    });
  });

  test("folds thousands of segments into 365 cells, each as the worst in it", async () => {
    const { client } = api;
    await publishSyncs(client, { ...TRANSFERS, segments: { max: 10_000, min_size: 10 } });
    await seeHeads(client, "transfers", { main: 80_004 });
    const [taken] = await takeSegments(client, "transfers", 1);
    if (taken === undefined) throw new Error("One was taken.");
    const error = { class: "user", message: "The node is away." };
    await endSegments(client, [taken], { error });
    const map = await client.call("mapSegments", MAIN);
    expect(map.segments).toBe(8_000);
    expect(map.cells).toHaveLength(365);
    expect(map.cells.reduce((sum, { segments }) => sum + segments, 0)).toBe(8_000);
    expect(map.cells.map(({ status }) => status)).toEqual([
      "FAILED",
      ...Array.from({ length: 364 }, () => "PENDING"),
    ]);
    expect(map.cells.at(-1)).toMatchObject({ to_block: 79_999 });
  });
});
