import type { EventData } from "../../src/work/events.ts";
import type { AuditedBackfill } from "./audited-backfill.ts";
import { type PairState, pairOf } from "./audited-pair.ts";

/** One task as the auditor follows it through the ledger. */
export type AuditedTask = {
  taskKey: number;
  assetIndex: number;
  assetKey: string;
  /** Keys that the next or current attempt works on. */
  keys: string[];
  attempt: number;
  state: "free" | "running" | "ended";
  failures: number;
  /** Attempts in a row that were lost with their worker. */
  lost: number;
  succeeded: boolean;
  startPos: number;
  retryAt: string | null;
  /** The pair that it waits for as its asset requires it, and whether that was made since. */
  awaited: { pair: string; isMade: boolean } | null;
  /** Pairs whose success must be on record before it starts. */
  needs: Set<string>;
};

type Requested = EventData<"RunRequested">;

/** A run as the auditor follows it through the ledger. */
export class AuditedRun {
  readonly pos: number;
  readonly data: Requested;
  readonly backfill: AuditedBackfill | null;
  readonly tasks: AuditedTask[];
  readonly pairs = new Map<string, PairState>();
  state: "PENDING" | "RUNNING" | "ENDED" = "PENDING";
  /** Pairs that a check holds back although they were made. */
  readonly blocked = new Set<string>();
  isCancelRequested = false;
  hasCancelledTask = false;

  constructor(pos: number, data: Requested, backfill: AuditedBackfill | null) {
    this.pos = pos;
    this.data = data;
    this.backfill = backfill;
    this.tasks = tasksOf(data);
    for (const task of this.tasks) {
      for (const key of task.keys) this.pairs.set(pairOf(task.assetKey, key), "planned");
    }
  }

  get isSegment(): boolean {
    return this.data.trigger_source_ref.type === "sync";
  }

  set(pair: string, state: PairState): void {
    this.pairs.set(pair, state);
    this.backfill?.pairs.set(pair, state);
  }

  /** Pairs in a state, by asset of the run, as indexes into the run's partition keys. */
  indexesIn(state: PairState): { asset: number; indexes: number[] }[] {
    const keys = this.data.partition_selection ?? [""];
    return this.data.tasks.flatMap(({ asset_key }, asset) => {
      const indexes = keys.flatMap((key, index) =>
        this.pairs.get(pairOf(asset_key, key)) === state ? [index] : [],
      );
      return indexes.length === 0 ? [] : [{ asset, indexes }];
    });
  }

  count(state: PairState): number {
    return [...this.pairs.values()].filter((each) => each === state).length;
  }
}

/** The indexes that an asset of a run has. */
function placesOf(data: Requested, asset: number): number[] {
  const count = data.partition_selection?.length ?? 1;
  const intervals = data.tasks[asset]?.partition_indexes ?? [[0, count - 1]];
  return Array.from({ length: count }, (_, index) => index).filter((index) =>
    intervals.some(([from, to]) => (from ?? 0) <= index && index <= (to ?? 0)),
  );
}

/** The tasks that a request stands for, with what each waits for, spelt out pair by pair. */
function tasksOf(data: Requested): AuditedTask[] {
  const tasks: AuditedTask[] = [];
  const keyAt = (index: number): string => data.partition_selection?.[index] ?? "";
  for (const [assetIndex, asset] of data.tasks.entries()) {
    const places = placesOf(data, assetIndex);
    const isWhole = asset.batch || data.partition_selection === null;
    for (const own of isWhole ? [places] : places.map((place) => [place])) {
      tasks.push({
        taskKey: tasks.length,
        assetIndex,
        assetKey: asset.asset_key,
        keys: own.map(keyAt),
        attempt: 0,
        state: "free",
        failures: 0,
        lost: 0,
        succeeded: false,
        startPos: 0,
        retryAt: null,
        awaited: null,
        needs: new Set(
          asset.upstream.flatMap((upstream) => {
            const above = placesOf(data, upstream.asset);
            const key = data.tasks[upstream.asset]?.asset_key ?? "";
            return above
              .filter((place) => isNeeded(upstream.edges, place, own))
              .map((place) => pairOf(key, keyAt(place)));
          }),
        ),
      });
    }
  }
  return tasks;
}

type Edges = Requested["tasks"][number]["upstream"][number]["edges"];

function isNeeded(edges: Edges, upstream: number, own: readonly number[]): boolean {
  if (edges === "all") return true;
  if (edges === "same") return own.includes(upstream);
  return edges.some(([up, down]) => up === upstream && own.includes(down));
}
