import { MoveSpec, type MoveStrategy } from "../work/move/spec.ts";
import type { Topology } from "../work/shard/spec.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/** Each tenant on its shard, and everybody else on the default one. */
export function byTenant(
  tenants: Readonly<Record<string, string>>,
  defaultShard: string,
): Topology {
  return { by: "tenant", tenants: { ...tenants }, default: defaultShard };
}

/** Tenants spread over buckets by a hash of their name; entry i is the shard of bucket i. */
export function byHash(buckets: readonly string[]): Topology {
  return { by: "hash", buckets: [...buckets] };
}

/** Ranges of the column's values, in order: each ends below its bound, and the last nowhere. */
export function byRange(
  ranges: readonly { readonly below?: string; readonly shard: string }[],
): Topology {
  return {
    by: "range",
    ranges: ranges.map(({ below, shard }) => ({ below: below ?? null, shard })),
  };
}

/** Everything that can be said about a move. */
export type MoveOptions = {
  from: Topology;
  to: Topology;
  /** All tables of the shards unless told. */
  tables?: readonly string[];
  /** How tables are cut: by rows, 100,000 a segment, unless told. */
  strategy?:
    | { type: "uniform"; segments?: number }
    | { type: "cardinality"; rows?: number }
    | { type: "adaptive"; rows?: number; targetMs?: number };
  /** Segments that run at once; 4 unless told. */
  segmentConcurrency?: number;
  /** Most rows in a second, by all workers together. */
  rowsPerSecond?: number;
  /** Copying waits while a replica of the target is further behind. */
  replicationLagMs?: number;
  /** Failures after which a segment is quarantined; 5 unless told. */
  segmentAttempts?: number;
  /** Failures of all segments together after which the move pauses. */
  retryBudget?: number;
  /** Leaves the rows on the shards they came from; they are removed unless told. */
  keepSource?: boolean;
  description?: string;
};

/** A move as defined. */
export type Move = { readonly name: string; readonly spec: MoveSpec };

const OPTIONS = [
  "from",
  "to",
  "tables",
  "strategy",
  "segmentConcurrency",
  "rowsPerSecond",
  "replicationLagMs",
  "segmentAttempts",
  "retryBudget",
  "keepSource",
  "description",
];

/** Defines a move of rows from one topology to another; `pawl move plan` begins with it. */
export function move(name: string, options: MoveOptions): Move {
  const subject = `The move ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  const spec = parseDefinition(
    subject,
    MoveSpec,
    withoutUndefined({
      kind: "move",
      name,
      description: options.description,
      from: options.from,
      to: options.to,
      tables: options.tables,
      strategy: strategyOf(options.strategy),
      segment_concurrency: options.segmentConcurrency,
      rows_per_second: options.rowsPerSecond,
      replication_lag_ms: options.replicationLagMs,
      segment_attempts: options.segmentAttempts,
      retry_budget: options.retryBudget,
      keep_source: options.keepSource,
    }),
  );
  return Object.freeze({ name, spec: Object.freeze(spec) });
}

function strategyOf(given: MoveOptions["strategy"]): Partial<MoveStrategy> | undefined {
  if (given === undefined || given.type !== "adaptive") return given;
  const { targetMs, ...rest } = given;
  return { ...rest, ...(targetMs === undefined ? {} : { target_ms: targetMs }) };
}
