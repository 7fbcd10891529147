import { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import { checkJsonBudget, checkValue } from "../../kernel/json-budget.ts";
import { Scope, TablePolicy } from "../../work/shard/spec.ts";
import { ShardKey } from "../../work/shard/step-protocol.ts";
import type {
  ApplyRequest,
  Digest,
  Fence,
  Guard,
  KeyRange,
  ReadAnswer,
  ReadRequest,
  SequenceValue,
  Shard,
  TableShape,
} from "../shard.ts";
import {
  applyRequestFromText,
  applyRequestToText,
  readAnswerFromText,
  readAnswerToText,
} from "../sqlite/transfer.ts";

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
  isAwaited: z.boolean().default(false),
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

/** What a shard can be asked to do over HTTP. */
export type AdminCall = Exclude<keyof Shard, "engine" | "close">;

/** One of them: where it is sent, what it takes, and how long it may take. */
export type AdminCallSpec = {
  readonly path: string;
  readonly args: z.ZodType<unknown[]>;
  readonly timeoutMs: number;
  /** Whether sending it twice does what sending it once does. */
  readonly isRepeatable: boolean;
};

/** For what is done at once, for what waits for locks, and for what goes through many rows. */
const SOON_MS = 20_000;
const WAITING_MS = 120_000;
const LONG_MS = 900_000;

const EXPORT = { path: "/admin/export", timeoutMs: LONG_MS, isRepeatable: true };
const IMPORT = { path: "/admin/import", timeoutMs: LONG_MS, isRepeatable: false };
const EVENTS = { path: "/admin/events", timeoutMs: WAITING_MS, isRepeatable: true };
const FENCE = { path: "/admin/fence", timeoutMs: WAITING_MS, isRepeatable: false };

const Nothing = z.tuple([]);
const Tenants = z.array(z.string().min(1));
const Shapes = z.array(ShapeDocument);

/** Everything that a driver may ask a shard for, and where. */
export const ADMIN_CALLS = asShardHas({
  describe: { ...EXPORT, args: z.tuple([z.array(TablePolicy)]) },
  firingTriggers: { ...EXPORT, args: z.tuple([Shapes]) },
  obstacles: { ...EXPORT, args: z.tuple([Shapes, z.enum(["rows", "changes"])]) },
  tenantProblem: { ...EXPORT, args: z.tuple([Shapes, z.array(z.string())]) },
  tryCapture: { ...IMPORT, isRepeatable: true, args: z.tuple([Shapes]) },
  read: { ...EXPORT, args: z.tuple([ReadDocument]) },
  survey: {
    ...EXPORT,
    args: z.tuple([RangeDocument, z.int().positive(), z.int().positive()]),
  },
  tenantRows: { ...EXPORT, args: z.tuple([RangeDocument]) },
  keyBounds: { ...EXPORT, args: z.tuple([RangeDocument]) },
  loadStream: { ...EXPORT, timeoutMs: SOON_MS, args: z.tuple([z.string()]) },
  listStreams: { ...EXPORT, timeoutMs: SOON_MS, args: z.tuple([z.string()]) },
  sequences: { ...EXPORT, timeoutMs: SOON_MS, args: z.tuple([Shapes]) },
  replicationLagMs: { ...EXPORT, timeoutMs: SOON_MS, args: Nothing },

  install: { ...IMPORT, isRepeatable: true, args: Nothing },
  take: { ...IMPORT, isRepeatable: true, args: z.tuple([GuardDocument]) },
  // Rows are in the engine's own form, which its own code reads and checks.
  apply: { ...IMPORT, args: z.tuple([z.custom<ApplyRequest>()]) },
  dropStream: { ...IMPORT, args: z.tuple([GuardDocument, z.string()]) },
  remove: {
    ...IMPORT,
    args: z.tuple([
      GuardDocument,
      RangeDocument,
      z.strictObject({
        limit: z.int().nonnegative(),
        expect: DigestDocument.nullable(),
        fences: z.array(FenceDocument.omit({ shard: true })).exactOptional(),
      }),
    ]),
  },
  advanceSequences: { ...IMPORT, isRepeatable: true, args: z.tuple([z.array(SequenceDocument)]) },

  armCapture: { ...EVENTS, args: z.tuple([GuardDocument, Shapes]) },
  disarmCapture: { ...EVENTS, args: z.tuple([GuardDocument]) },
  position: { ...EVENTS, timeoutMs: SOON_MS, args: Nothing },
  lag: { ...EVENTS, timeoutMs: SOON_MS, args: z.tuple([z.string()]) },
  release: { ...EVENTS, args: z.tuple([GuardDocument, z.string()]) },

  fences: { ...FENCE, isRepeatable: true, timeoutMs: SOON_MS, args: z.tuple([Tenants]) },
  setFences: { ...FENCE, args: z.tuple([GuardDocument, z.array(FenceDocument)]) },
  closeFences: {
    ...FENCE,
    args: z.tuple([
      GuardDocument,
      Tenants,
      z.strictObject({ waitMs: z.number().nonnegative(), holdMs: z.number().nonnegative() }),
    ]),
  },
  holdFences: { ...FENCE, timeoutMs: SOON_MS, args: z.tuple([GuardDocument, Tenants]) },
  dropFences: { ...FENCE, args: z.tuple([GuardDocument, Tenants]) },

  digest: { ...EXPORT, path: "/admin/verify", args: z.tuple([RangeDocument]) },

  runDdl: {
    ...IMPORT,
    path: "/ddl",
    args: z.tuple([GuardDocument, z.string().min(1), z.array(TablePolicy)]),
  },
});

/** A call whose document has the fields of what the method takes, and whose answer JSON can carry. */
type AsShardHas<Call extends AdminCall, Args> =
  SameFields<z.input<Args>, Parameters<Shard[Call]>> extends true
    ? IsJson<Awaited<ReturnType<Shard[Call]>>> extends true
      ? { readonly args: z.ZodType<Parameters<Shard[Call]>> }
      : Call extends "read"
        ? { readonly args: z.ZodType<Parameters<Shard[Call]>> }
        : { readonly args: `the answer of ${Call} is not JSON: give it a document of its own` }
    : { readonly args: `the document of ${Call} has other fields than Shard.${Call} takes` };

/** Gives the table as it is; it does not compile where a document and `Shard` differ in a field. */
function asShardHas<const Table extends { readonly [Call in AdminCall]: AdminCallSpec }>(
  table: Table & {
    readonly [Call in AdminCall]: AsShardHas<Call, Table[Call]["args"]>;
  },
): Table {
  return table;
}

/** Whether a text names something that a shard can be asked for. */
export function isAdminCall(text: string): text is AdminCall {
  return Object.hasOwn(ADMIN_CALLS, text);
}

/*
 * A shard over HTTP refuses what its documents do not know, so that nothing that matters is dropped
 * in silence. Types of TypeScript let a value have more fields than asked for, and let a document
 * lack one that is optional. So the documents and the types are compared field by field here, and
 * what is sent has the fields of its document and no other.
 */

/** A type as its fields alone: nothing is readonly, nothing optional. */
type Fields<T> = T extends readonly unknown[]
  ? { -readonly [At in keyof T]: Fields<T[At]> }
  : T extends object
    ? { -readonly [Name in keyof T]-?: Fields<Exclude<T[Name], undefined>> }
    : T;

/** `true` when two types have the same fields of the same types, however deep. */
export type SameFields<One, Other> = [Fields<One>] extends [Fields<Other>]
  ? [Fields<Other>] extends [Fields<One>]
    ? true
    : false
  : false;

/** `true` when JSON has room for all of a type: no big integer, bytes, date or function. */
export type IsJson<T> = T extends string | number | boolean | null | undefined | void
  ? true
  : T extends readonly (infer Item)[]
    ? IsJson<Item>
    : T extends (...given: never) => unknown
      ? false
      : T extends object
        ? IsJson<T[keyof T]>
        : false;

/** A value with the fields that its document has and no other. */
export function projected(schema: z.core.$ZodType, value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return projected(schema.unwrap(), value);
  }
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodExactOptional) {
    return projected(schema.unwrap(), value);
  }
  if (Array.isArray(value)) {
    const items: unknown[] = value;
    if (schema instanceof z.ZodTuple) {
      const parts: readonly z.core.$ZodType[] = schema.def.items;
      return items.map((item, at) => (parts[at] === undefined ? item : projected(parts[at], item)));
    }
    if (schema instanceof z.ZodArray) return items.map((item) => projected(schema.element, item));
    return items;
  }
  if (!(schema instanceof z.ZodObject)) return value;
  const shape = new Map(Object.entries<z.core.$ZodType>(schema.shape));
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => {
      const field = shape.get(name);
      return field === undefined ? [] : [[name, projected(field, inner)]];
    }),
  );
}

/*
 * A call goes to its path with its name in the query; the body is the list of what it takes, and
 * the answer's body is what it gives. Only what has rows in it is written by the engine's own code.
 */

/** Where a call goes. */
export function targetOf(call: AdminCall): string {
  return `${ADMIN_CALLS[call].path}?call=${call}`;
}

/** The body of a call. */
export function argsToText(call: AdminCall, args: readonly unknown[]): string {
  if (call === "apply") return applyRequestToText(args[0] as ApplyRequest);
  return JSON.stringify(projected(ADMIN_CALLS[call].args, args));
}

/** What a call takes, from its body. Throws `INPUT_INVALID`. */
export function argsFromText(call: AdminCall, text: string): unknown[] {
  if (call === "apply") return [applyRequestFromText(text)];
  return checkedJson<unknown[]>(ADMIN_CALLS[call].args, text);
}

/** The body of an answer. */
export function answerToText(call: AdminCall, answer: unknown): string {
  return call === "read" ? readAnswerToText(answer as ReadAnswer) : JSON.stringify(answer ?? null);
}

/** What a call gives, from the body of its answer. */
export function answerFromText(call: AdminCall, text: string): unknown {
  return call === "read" ? readAnswerFromText(text) : (JSON.parse(text) as unknown);
}

/** Most values in a body: a thousand statements with some hundred parameters each. */
const VALUES_MAX = 500_000;

/** The value of a body as a schema has it; `INPUT_INVALID` with what is wrong first, and all of it in `errors`. */
export function checkedJson<Value>(schema: z.ZodType<Value>, text: string): Value {
  checkJsonBudget(text, VALUES_MAX);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `The body is not JSON: ${reason}.`, { cause: error });
  }
  const checked = checkValue(schema, value);
  if (checked.success) return checked.data;
  const errors = checked.issues.slice(0, 20).map(({ path, message }) => {
    return { field: ["body", ...path.map(String)].join("."), message };
  });
  const [first = { field: "body", message: "is wrong" }] = errors;
  throw new PawlError("INPUT_INVALID", `${first.field}: ${first.message}.`, {
    details: { errors },
  });
}
