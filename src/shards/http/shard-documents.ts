import { z } from "zod";
import { ShardKey } from "../../work/shard/step-protocol.ts";
import { Scope } from "../../work/shard/spec.ts";
import type {
  Digest,
  Fence,
  Guard,
  KeyRange,
  ReadRequest,
  SequenceValue,
  TableShape,
} from "../shard.ts";

/* What a shard over HTTP takes, checked as it comes in: `shard.ts` says what it means. */

const Count = z.int().nonnegative();
const Name = z.string().min(1).max(1_000);
const Position = z.string().max(100_000);

/** Who acts. */
export const GuardDocument = z.strictObject({
  plan: Name,
  token: Count,
}) satisfies z.ZodType<Guard>;

/** What a table looks like. */
export const ShapeDocument = z.strictObject({
  table: Name,
  shard_by: Name,
  columns: z.array(z.strictObject({ name: Name, type: z.string() })),
  key: z.array(Name).min(1),
  references: z.array(Name),
  fingerprint: z.string(),
}) satisfies z.ZodType<TableShape>;

/** A range of a table's keys. */
export const RangeDocument = z.strictObject({
  table: ShapeDocument,
  scope: Scope,
  after: ShardKey.nullable().default(null),
  from: ShardKey.nullable().default(null),
  below: ShardKey.nullable().default(null),
}) satisfies z.ZodType<KeyRange>;

const CursorDocument = z.strictObject({ table: Count, key: ShardKey.nullable() });

/** Count and digest. */
export const DigestDocument = z.strictObject({
  rows: Count,
  digest: z.string(),
}) satisfies z.ZodType<Digest>;

/** What to read in one snapshot. */
export const ReadDocument = z.strictObject({
  tables: z.array(ShapeDocument),
  scope: Scope,
  from: Position.nullable(),
  to: Position.nullable().default(null),
  after_id: z.string().nullable().default(null),
  cursor: CursorDocument.nullable(),
  changesMax: Count,
  chunk: RangeDocument.extend({ limit: Count }).nullable(),
}) satisfies z.ZodType<ReadRequest>;

/** A fence as it is set. */
export const FenceDocument = z.strictObject({
  tenant: z.string().min(1),
  epoch: Count,
  state: z.enum(["open", "closed", "held", "incoming", "moved"]),
  shard: z.string().nullable(),
}) satisfies z.ZodType<Omit<Fence, "until">>;

/** Where a sequence stands. */
export const SequenceDocument = z.strictObject({
  table: Name,
  column: Name,
  value: z.string(),
}) satisfies z.ZodType<SequenceValue>;
