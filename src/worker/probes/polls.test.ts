import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/manual-clock.ts";
import type { ClaimedHead } from "../../work/probe-protocol.ts";
import { SourceUnavailable } from "../../define/errors.ts";
import { pollHead } from "./polls.ts";
import { SourceGate } from "../segments/source-gate.ts";

/** A look at a chain of 100 blocks, whose fork may change after so many hashes were read. */
function lookAt({ forks, anchors }: { forks: string[]; anchors: string[] }) {
  const clock = new ManualClock();
  const options = { wallNow: () => 0, used: () => undefined, learnt: () => undefined };
  const gate = new SourceGate({ source: "mainnet", clock, ...options });
  const { signal } = new AbortController();
  const target = { network: "mainnet" };
  const turn = async () => undefined;
  const context = { sync: "s", source: "mainnet", target, signal, turn, log: () => undefined };
  let reads = 0;
  const code = {
    fetch: async () => 0,
    head: async () => 100,
    hash: async (block: number) => `${forks[Math.min(reads++, forks.length - 1)]}${block}`,
    verify: null,
    verifyEachSegment: true,
  };
  const claimed: ClaimedHead = {
    probe_id: "head:s:mainnet",
    attempt: 1,
    sync: "s",
    source: "mainnet",
    target,
    finality: 10,
    timeout_ms: 1_000,
    anchors: anchors.map((hash) => ({ block: Number(hash.slice(1)), hash })),
  };
  return pollHead(claimed, { code, gate, context, signal });
}

describe("pollHead", () => {
  test("sees the head and the hash of what is safe", async () => {
    expect(await lookAt({ forks: ["a"], anchors: ["a80"] })).toEqual({
      type: "seen",
      head: 100,
      safe: { block: 90, hash: "a90" },
      fork: null,
    });
  });

  test("goes back to the newest block that still holds", async () => {
    const look = await lookAt({ forks: ["b"], anchors: ["a80", "a70", "b60", "b50"] });
    expect(look).toMatchObject({ safe: { hash: "b90" }, fork: { block: 60 } });
  });

  test("takes nothing for a rewrite that is not there a second time", async () => {
    const look = await lookAt({ forks: ["a", "b", "a"], anchors: ["a80"] });
    expect(look).toMatchObject({ fork: null });
  });

  test("leaves a rewrite that happens while it looks to the next look", async () => {
    const look = await lookAt({ forks: ["a", "a", "b"], anchors: ["a80"] });
    expect(look).toMatchObject({ safe: { block: 90, hash: "a90" }, fork: null });
  });

  test("does not say where a fork is while blocks are being rewritten", async () => {
    const looking = lookAt({
      forks: ["b", "b", "b", "b", "b", "c"],
      anchors: ["a80", "a70", "b60"],
    });
    await expect(looking).rejects.toThrow(SourceUnavailable);
  });
});
