import { z } from "zod";
import {
  Labels,
  AssetKey,
  DEFAULT_TIMEOUT_MS,
  DurationMs,
  PoolName,
  RetryPolicy,
} from "../definition/spec.ts";
import { PawlError } from "../../kernel/errors.ts";
import { multiKeyOf, decodeValue } from "../../kernel/keyspace/keyspace-of.ts";
import { compareText } from "../../kernel/table.ts";
import { suggestion } from "../../kernel/message-text.ts";

/** The name of a sync's definition, for example `eth.transfers`. */
export const SyncName = AssetKey;

/** A number of the source: a block, an offset, an id. */
export const Block = z
  .int()
  .min(0)
  .max(Number.MAX_SAFE_INTEGER - 1);

/** A place in an index holds 2,704 bytes, in PostgreSQL: this, a name and an id fit in any script. */
const TARGET_KEY_LENGTH_MAX = 600;

/** What a sync is about, by field: for example a wallet and a network. */
export const SyncTarget = z
  .record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, {
      error: "must be 1 to 64 letters, digits and _, and not start with a digit",
    }),
    z.string().min(1).max(500),
  )
  .refine((target) => Object.keys(target).length >= 1 && Object.keys(target).length <= 16, {
    error: "must have 1 to 16 fields",
  })
  .refine((target) => targetKeyOf(target).length <= TARGET_KEY_LENGTH_MAX, {
    error: `must have at most ${TARGET_KEY_LENGTH_MAX} characters in all`,
  });
export type SyncTarget = Readonly<Record<string, string>>;

/** New blocks in a second that are believed of a source whose definition says nothing about it. */
export const HEAD_RATE_MAX = 100_000;

/** Most targets that one definition names. */
export const TARGETS_MAX = 10_000;

/** The retry policy of a sync that says nothing about it: without end. */
export const SYNC_RETRY: RetryPolicy = Object.freeze(
  RetryPolicy.parse({ max_attempts: null, max_delay_ms: 300_000 }),
);

/** A sync as published: everything about it but its functions. */
export const SyncSpec = z.strictObject({
  kind: z.literal("sync"),
  name: SyncName,
  description: z.string().max(2_000).optional(),
  labels: Labels.default({}),
  /** Those that code names; others are added by the API. */
  targets: z.array(SyncTarget).max(TARGETS_MAX).default([]),
  /**
   * What a target is fetched from, with fields of the target in braces: `{network}`. Targets of one
   * source share its head, its budget and what is learnt about it, also across syncs.
   */
  source: z.string().min(1).max(200),
  from: Block,
  /** The last block of a fixed range; null to follow the head. */
  to: Block.nullable().default(null),
  segments: z
    .strictObject({
      /** Most segments that the history is cut into. */
      max: z.int().min(1).max(10_000).default(365),
      /** Fewer blocks than this are not worth a segment of their own. */
      min_size: z.int().min(1).default(1_000),
    })
    .default({ max: 365, min_size: 1_000 }),
  /** False for sources that page their whole history: one segment at a time, asked for as a whole. */
  splittable: z.boolean().default(true),
  order: z.enum(["oldest_first", "newest_first"]).default("oldest_first"),
  /** Segments of one target that run at once. */
  max_parallel: z.int().min(1).max(1_000).default(4),
  /** Never closer to the head than this. */
  finality: z.int().min(0).max(1_000_000).default(0),
  head_every_ms: DurationMs.min(100).default(5_000),
  /** Most new blocks in a second that are believed; a head further on is refused as a mistake. */
  head_rate_max: z.number().positive().max(1e15).optional(),
  /** Which functions the code has; a worker of another version may differ. */
  has: z.strictObject({ head: z.boolean(), hash: z.boolean(), verify: z.boolean() }),
  /** Blocks in the first request; what is learnt about the source takes its place. */
  request_size: z.int().min(1).nullable().default(null),
  /** Most requests to the source in a second, by all workers together. */
  requests_per_second: z.number().positive().max(1_000_000).nullable().default(null),
  pool: PoolName.nullable().default(null),
  priority: z.int().min(-100).max(100).default(0),
  retry: RetryPolicy.default(SYNC_RETRY),
  timeout_ms: DurationMs.min(1).default(24 * DEFAULT_TIMEOUT_MS),
  stall_after_ms: DurationMs.min(1).nullable().default(180_000),
  /** How often a block must fail, while the source answers for others, to be quarantined. */
  quarantine_after: z.int().min(1).max(1_000).default(5),
  /** After so many failed attempts a segment is abandoned until somebody retries it; never when left out. */
  abandon_after: z.int().min(1).max(100_000).optional(),
  code_version: z.string().min(1).max(200).nullable().default(null),
});
export type SyncSpec = z.infer<typeof SyncSpec>;

/** The text by which a target is told from others: fields in order, `network=mainnet,wallet=0x1`. */
export function targetKeyOf(target: SyncTarget): string {
  const names = Object.keys(target).toSorted(compareText);
  return multiKeyOf(names.map((name) => ({ name, value: target[name] ?? "" })));
}

/** The source of a target. Throws DEFINITION_INVALID for a field that the target lacks. */
export function sourceOf(spec: Pick<SyncSpec, "name" | "source">, target: SyncTarget): string {
  return spec.source.replaceAll(/\{([^{}]*)\}/g, (_, field: string) => {
    const value = Object.hasOwn(target, field) ? target[field] : undefined;
    if (value !== undefined) return value;
    throw new PawlError(
      "DEFINITION_INVALID",
      `The sync ${spec.name} has the source ${JSON.stringify(spec.source)}, but its target ` +
        `${targetKeyOf(target)} has no field ${JSON.stringify(field)}.`,
      { details: { sync: spec.name, source: spec.source, target } },
    );
  });
}

/** The name under which workers ask for a sync's segments; no asset can have it. */
export function workNameOf(syncName: string): string {
  return `sync:${syncName}`;
}

/** Checks a sync as a whole and against the pools there are. Throws DEFINITION_INVALID. */
export function validateSync(sync: SyncSpec, pools: ReadonlySet<string>): void {
  if (sync.to === null && !sync.has.head) {
    throw invalid(sync, "has neither a function head nor an end: give it one of them.");
  }
  if (sync.to !== null && sync.to < sync.from) {
    throw invalid(sync, `begins at ${sync.from} and ends before that, at ${sync.to}.`);
  }
  if (sync.pool !== null && !pools.has(sync.pool)) {
    throw invalid(
      sync,
      `uses the pool ${JSON.stringify(sync.pool)}, which is not ` +
        `defined${suggestion(sync.pool, [...pools])}.`,
    );
  }
  const seen = new Set<string>();
  for (const target of sync.targets) {
    sourceOf(sync, target);
    const key = targetKeyOf(target);
    if (seen.has(key)) throw invalid(sync, `names the target ${key} twice.`);
    seen.add(key);
  }
}

function invalid(sync: SyncSpec, fault: string): PawlError {
  return new PawlError("DEFINITION_INVALID", `The sync ${sync.name} ${fault}`, {
    details: { kind: "sync", name: sync.name },
  });
}

/** The fields in a text such as `network=mainnet,wallet=0x1`, in any order. Throws INPUT_INVALID. */
export function targetOfText(text: string): SyncTarget {
  const fields = new Map<string, string>();
  for (const part of text.split(",")) {
    const at = part.indexOf("=");
    const name = part.slice(0, Math.max(0, at)).trim();
    const value = part.slice(at + 1);
    if (!/^[A-Za-z_]\w*$/.test(name) || value === "" || fields.has(name)) {
      throw new PawlError(
        "INPUT_INVALID",
        `${JSON.stringify(text)} is no target: expected fields such as ` +
          "network=mainnet,wallet=0x1, each of them once.",
        { details: { target: text } },
      );
    }
    // A value that nobody encoded means itself.
    fields.set(name, decodeValue(value) ?? value);
  }
  return Object.fromEntries(fields);
}

/** The sync that a text names: an id as it is, `name@fields` with the fields in their order. */
export function syncRefOf(text: string): string {
  const at = text.indexOf("@");
  if (at < 0) return text;
  return `${text.slice(0, at)}@${targetKeyOf(targetOfText(text.slice(at + 1)))}`;
}
