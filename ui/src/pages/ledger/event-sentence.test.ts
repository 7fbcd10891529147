import { describe, expect, test } from "vitest";
import type { EventDocument } from "../../../../src/work/server-api.ts";
import { EVENTS } from "../../../../src/work/events.ts";
import { eventLinks } from "./event-links.ts";
import { aboutPartition, EVENT_TYPES, eventSentence } from "./event-sentence.ts";
import { isTrouble } from "./is-trouble.ts";

const segment = { sync_id: "s1", segment_index: 4, generation: 0, purpose: "fetch" };
const runFinished = {
  run_id: "run_1",
  outcome: "SUCCEEDED",
  counts: { succeeded: 1, failed: 0, cancelled: 0, skipped: 0 },
  segment,
};

describe("an event in words", () => {
  test("is offered as a filter under exactly one heading", () => {
    const offered = EVENT_TYPES.flatMap(([, types]) => types);
    expect(offered.toSorted()).toEqual(Object.keys(EVENTS).toSorted());
  });

  test("says what became of a segment", () => {
    const error = { class: "user", message: "No such block." };
    const data = { ...runFinished, segment_end: { becomes: "quarantined", error } };
    expect(eventSentence({ type: "RunFinished", data })).toBe(
      "The run succeeded: 1 succeeded. The segment is quarantined: No such block.",
    );
    expect(isTrouble({ type: "RunFinished", data })).toBe(true);
    expect(isTrouble({ type: "RunFinished", data: runFinished })).toBe(false);
  });

  test("shows what would not be seen, and only the beginning of what is long", () => {
    const data = { definition: "a\u202Eb", keys: ["x".repeat(4_000)] };
    const sentence = eventSentence({ type: "PartitionKeysAdded", data }) ?? "";
    expect(sentence).toContain("a⟨U+202E⟩b");
    expect(sentence.length).toBeLessThan(200);
  });

  test("has none where its type or its form is not known", () => {
    expect(eventSentence({ type: "SomethingNew", data: {} })).toBeNull();
    expect(eventSentence({ type: "BackfillCreated", data: {} })).toBeNull();
  });
});

describe("the links of an event", () => {
  test("lead to what it names, each once", () => {
    const links = eventLinks({ data: { ...runFinished, backfill_id: null, chunk_index: null } });
    expect(links.map(({ href }) => href)).toEqual([
      "/runs/run_1",
      "/syncs/s1?segment=4",
      "/syncs/s1",
    ]);
  });

  test("escape what stands in an address", () => {
    const data = {
      asset_selection: ["sales/orders"],
      partition_selection: ["day=1,region=a%2Cb"],
      trigger_source_ref: { type: "manual", user_id: "u", request_id: "r" },
    };
    expect(eventLinks({ data }).map(({ href }) => href)).toEqual([
      "/assets/sales%2Forders",
      "/assets/sales%2Forders?partition=day%3D1%2Cregion%3Da%252Cb",
    ]);
  });

  test("take no work of a sync for an asset", () => {
    const data = { asset_selection: ["sync:s"], trigger_source_ref: { type: "sync", ...segment } };
    expect(eventLinks({ data }).map(({ kind }) => kind)).toEqual(["segment", "sync"]);
  });
});

describe("an event that led to a partition", () => {
  const told = (results: object[], entity: string) => {
    const event = { type: "TasksFinished", data: { results } } as unknown as EventDocument;
    return eventSentence(aboutPartition(event, entity));
  };
  const result = { task_key: 0, attempt: 1, asset_key: "orders", outcome: "SUCCEEDED" };
  const error = (message: string) => ({ class: "user", message });

  test("is told as what it says of that one", () => {
    const results = [
      { ...result, count: 2, partition_keys: ["mon", "tue"] },
      { ...result, partition_keys: ["wed"], outcome: "FAILED", error: error("disk is full") },
      { ...result, partition_keys: ["thu"], outcome: "FAILED", error: error("no rows") },
    ];
    expect(told(results, "orders@tue")).toBe("1 task succeeded.");
    expect(told(results, "orders@thu")).toBe("1 task failed: orders thu, attempt 1, no rows");
    expect(told(results, "run_a")).toMatch(/^2 tasks succeeded, 2 tasks failed: orders wed/);
    expect(told(results, "orders@sun")).toMatch(/^2 tasks succeeded, 2 tasks failed: orders wed/);
  });

  test("is told as what it says of that one in a batch", () => {
    const exceptions = [
      { index: 0, outcome: "FAILED", error: error("disk is full") },
      { index: 2, outcome: "FAILED", error: error("no rows") },
    ];
    const partition_keys = ["mon", "tue", "wed"];
    const results = [{ ...result, partition_keys, exceptions, error: error("disk is full") }];
    expect(told(results, "orders@tue")).toBe("1 task succeeded.");
    expect(told(results, "orders@wed")).toBe("1 task failed: orders wed, attempt 1, no rows");
  });
});
