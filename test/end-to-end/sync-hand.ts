import { expect } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import type { ClaimedSegment, SegmentReport } from "../../src/work/sync/segment-protocol.ts";

/** A sync as a test publishes it. */
type SyncBody = Extract<PartInput<"publishDefinitions", "body">["specs"][number], { kind: "sync" }>;

/** Blocks 0 on, never closer to the head than 5, in ten segments of a hundred for a head of 1,004. */
export const TRANSFERS = {
  kind: "sync",
  name: "transfers",
  source: "{network}",
  from: 0,
  segments: { max: 10, min_size: 10 },
  finality: 5,
  head_every_ms: 100,
  max_parallel: 4,
  retry: { max_attempts: null, delay_ms: 3_600_000, max_delay_ms: 3_600_000 },
  has: { head: true, hash: false, verify: true },
  targets: [{ network: "main", wallet: "0xa" }],
} satisfies SyncBody;

/** Publishes syncs as a deploy does. */
export async function publishSyncs(client: Client, ...specs: SyncBody[]): Promise<void> {
  const body = { specs, origin: "code" as const, prune: true };
  await client.call("publishDefinitions", { body });
}

/** A segment that a test has taken, with what it needs to say what became of it. */
export type Taken = {
  segment: ClaimedSegment;
  lease_id: string;
  run_pos: number;
  task_key: number;
  attempt: number;
};

const WORKER = { worker_id: "hand" };

/** Lets the heads that are due be seen where the map says. */
export async function seeHeads(
  client: Client,
  sync: string,
  headOf: Readonly<Record<string, number>>,
): Promise<void> {
  const waiting = new Set(Object.keys(headOf));
  while (waiting.size > 0) {
    const { heads } = await client.call("claimHeads", {
      body: { ...WORKER, syncs: [sync], slots: 100, wait_ms: 5_000 },
    });
    if (heads.length === 0) throw new Error(`Nobody asks for ${[...waiting].join(", ")}.`);
    const results = heads.map(({ probe_id, attempt, source, finality }) => {
      waiting.delete(source);
      const head = headOf[source];
      const outcome =
        head === undefined
          ? ({ type: "failed", error: { class: "user", message: "It is away." } } as const)
          : ({ type: "seen", head, safe: safeUnder(head - finality), fork: null } as const);
      return { probe_id, attempt, sync, source, outcome };
    });
    await client.call("reportHeads", { body: { ...WORKER, results } });
  }
}

function safeUnder(block: number): { block: number; hash: string } | null {
  return block < 0 ? null : { block, hash: `hash ${block}` };
}

/** Takes segments that are ready; fails when there are fewer. */
export async function takeSegments(client: Client, sync: string, count: number): Promise<Taken[]> {
  const taken: Taken[] = [];
  while (taken.length < count) {
    const lease_id = crypto.randomUUID();
    const { groups } = await client.call("claim", {
      body: {
        ...WORKER,
        lease_id,
        slots: count - taken.length,
        assets: [`sync:${sync}`],
        code_version: null,
        wait_ms: 5_000,
      },
    });
    if (groups.length === 0) throw new Error(`Only ${taken.length} of ${count} are ready.`);
    for (const { segment, run_pos, tasks } of groups) {
      const [task] = tasks;
      if (segment === undefined || task === undefined) throw new Error("It is no segment.");
      taken.push({ segment, lease_id, run_pos, task_key: task.task_key, attempt: task.attempt });
    }
  }
  return taken;
}

/** Says how far an attempt is. */
export async function reach(client: Client, taken: Taken, block: number): Promise<void> {
  const { run_pos, task_key, attempt } = taken;
  const value = { last_processed_block: block, end_hash: null, rows: 7, quarantined: [] };
  const answer = await client.call("checkpoint", {
    body: { items: [{ run_pos, task_key, attempt, value }] },
  });
  expect(answer.accepted).toEqual([true]);
}

/** What becomes of an attempt, where it is not plain success. */
export type Ended = {
  report?: Partial<SegmentReport>;
  error?: { class: string; message: string };
  final?: boolean;
};

/** Ends attempts: with everything stored, or with what went wrong. */
export async function endSegments(
  client: Client,
  taken: readonly Taken[],
  { report = {}, error, final }: Ended = {},
): Promise<void> {
  const results = taken.map(({ segment, run_pos, task_key, attempt }) => {
    const blocks = segment.to_block - segment.from_block + 1;
    const isFetch = segment.purpose === "fetch";
    const done: SegmentReport = {
      last_processed_block: error === undefined ? segment.to_block : null,
      end_hash: null,
      rows: error === undefined && isFetch ? blocks : 0,
      blocks: error === undefined && isFetch ? blocks : 0,
      work_ms: 1_000,
      requests: 1,
      quarantined: [],
      verification: isFetch ? null : { ok: true, note: null },
      ...report,
    };
    return {
      run_pos,
      task_key,
      attempt,
      outcome: error === undefined ? ("SUCCEEDED" as const) : ("FAILED" as const),
      segment: done,
      ...(error === undefined ? {} : { error }),
      ...(final === undefined ? {} : { final }),
    };
  });
  const released_leases = [...new Set(taken.map(({ lease_id }) => lease_id))];
  const answer = await client.call("report", {
    body: { ...WORKER, code_version: null, results, released_leases },
  });
  expect(answer.results).toEqual(results.map(() => "recorded"));
}

/** Takes and ends so many segments. */
export async function fetchSegments(client: Client, sync: string, count: number): Promise<void> {
  for (let left = count; left > 0; ) {
    const taken = await takeSegments(client, sync, 1);
    await endSegments(client, taken);
    left -= taken.length;
  }
}
