import { describe, expect, test } from "vitest";
import { EVENTS } from "../../../../src/core/events/index.ts";
import { eventLinks } from "./event-links.ts";
import { EVENT_TYPES, eventSentence } from "./event-sentence.ts";
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
      "The run succeeded: 1 succeeded. The segment is set aside: user: No such block.",
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
