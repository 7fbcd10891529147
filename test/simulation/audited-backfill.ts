import type { EventData } from "../../src/work/events.ts";
import type { AssetSpec } from "../../src/work/definition/spec.ts";
import { type PairState, pairOf } from "./audited-pair.ts";

type Part = { from: number; to: number; assets?: number[] | undefined };

/** One chunk as the auditor follows it. */
export type AuditedChunk = {
  generation: number;
  pairs: string[];
  state: "PENDING" | "PLANNED" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELLED" | "SPLIT";
};

/** A backfill as the auditor follows it through the ledger. */
export class AuditedBackfill {
  readonly pos: number;
  readonly data: EventData<"BackfillCreated">;
  readonly assets: readonly AssetSpec[];
  /** All keys of the definition at the time of creation, by ordinal. */
  readonly keys: readonly string[];
  readonly pairs = new Map<string, PairState>();
  readonly chunks = new Map<number, AuditedChunk>();
  surveyed: Part[] = [];
  surveyPages = 0;
  state: string = "PENDING";
  version = 1;
  maxConcurrent: number;
  limitReached = false;
  isOpen: boolean;

  constructor(
    pos: number,
    data: EventData<"BackfillCreated">,
    assets: readonly AssetSpec[],
    keys: readonly string[],
  ) {
    this.pos = pos;
    this.data = data;
    this.assets = assets;
    this.keys = keys;
    this.maxConcurrent = data.max_concurrent_runs;
    this.isOpen = data.timing?.is_open ?? true;
  }

  get isEnded(): boolean {
    return this.state === "SUCCEEDED" || this.state === "FAILED" || this.state === "CANCELLED";
  }

  /** Pairs that some parts stand for. */
  pairsOf(parts: readonly Part[]): string[] {
    return parts.flatMap(({ from, to, assets }) =>
      this.data.asset_selection.flatMap((asset, index) =>
        assets !== undefined && !assets.includes(index)
          ? []
          : Array.from({ length: to - from + 1 }, (_, offset) =>
              pairOf(asset, this.keys[from + offset] ?? "?"),
            ),
      ),
    );
  }

  /** Whether the pair is in a chunk that goes on, and may be split when its batch fails as a whole. */
  maySplit(pair: string): boolean {
    const bisecting = this.assets.filter(({ batch, bisect }) => batch && bisect);
    return [...this.chunks.values()].some(
      ({ state, pairs }) =>
        (state === "PLANNED" || state === "RUNNING") &&
        pairs.includes(pair) &&
        bisecting.some(({ asset_key }) => pairs.some((each) => each.startsWith(`${asset_key}\n`))),
    );
  }

  active(): number {
    return this.chunksIn("PLANNED") + this.chunksIn("RUNNING");
  }

  chunksIn(state: AuditedChunk["state"]): number {
    return [...this.chunks.values()].filter((chunk) => chunk.state === state).length;
  }

  /** The counters that the row should have. */
  counters(): Record<string, number> {
    const pairs = { planned: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0, skipped: 0 };
    for (const state of this.pairs.values()) {
      if (state === "pending") continue;
      if (state === "skipped") pairs.succeeded += 1;
      pairs[state] += 1;
    }
    const split = this.chunksIn("SPLIT");
    const tiles = [...this.chunks.keys()].filter((index) => index >= this.data.total_chunks).length;
    const total = this.data.total_chunks + tiles - split;
    const chunks = {
      chunks_planned: this.chunksIn("PLANNED"),
      chunks_running: this.chunksIn("RUNNING"),
      chunks_succeeded: this.chunksIn("SUCCEEDED"),
      chunks_failed: this.chunksIn("FAILED"),
      chunks_cancelled: this.chunksIn("CANCELLED"),
    };
    if (this.isEnded) {
      chunks.chunks_cancelled = total - chunks.chunks_succeeded - chunks.chunks_failed;
    }
    return {
      ...chunks,
      total_chunks: total,
      partitions_total: this.pairs.size,
      ...Object.fromEntries(
        Object.entries(pairs).map(([state, count]) => [`partitions_${state}`, count]),
      ),
    };
  }
}
