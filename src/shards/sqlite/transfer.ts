import { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import { checkJsonBudget, checkValue } from "../../kernel/json-budget.ts";
import { ShardKey } from "../../work/shard/step-protocol.ts";
import { Scope } from "../../work/shard/spec.ts";
import type { SameFields } from "../http/admin-calls.ts";
import type { ApplyRequest, ReadAnswer, RowBatch } from "../shard.ts";
import type { SqliteValue } from "./literals.ts";
import type { SqliteImage, SqliteRows } from "./read.ts";
import { StreamStateJson } from "./plans.ts";

/*
 * What goes over the wire between SQLite shards, as JSON. A number is an integer and a text a text;
 * what JSON has not is a list of a letter and the value: ["i", "9223372036854775807"] an integer
 * that a number does not hold, ["r", 1.5] and ["r", "-0"] a real, ["b", "AP8="] a blob. Images
 * name their columns by the place of the list in `layouts`. A `ReadRequest` is JSON as it is.
 */

const Rows = z.array(z.array(z.unknown()));
const Digest = z.object({ rows: z.int(), digest: z.string() });
const Image = z.object({ layout: z.int(), values: z.array(z.unknown()) }).nullable();
const Layouts = z.array(z.array(z.string()));
const Batch = z.object({
  count: z.int(),
  bytes: z.number(),
  body: z.object({ columns: z.array(z.string()), rows: Rows }),
});

const Answer = withFieldsOf<ReadAnswer>()(
  z.object({
    layouts: Layouts,
    position: z.string(),
    changes: z.array(
      z.object({
        id: z.string(),
        table: z.string(),
        op: z.enum(["put", "delete", "ddl"]),
        key: ShardKey,
        covered: z.boolean(),
        image: Image,
        ddl: z.object({ sql: z.string(), fingerprint: z.string() }).nullable(),
        at: z.string(),
      }),
    ),
    through_id: z.string().nullable(),
    complete: z.boolean(),
    chunk: z.object({ rows: Batch, last: ShardKey.nullable(), ended: z.boolean() }).nullable(),
    fingerprint: z.string(),
    changed: Digest.nullable(),
  }),
);

const TableShape = z.object({
  table: z.string(),
  shard_by: z.string(),
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  key: z.array(z.string()),
  references: z.array(z.string()),
  fingerprint: z.string(),
});

const Request = withFieldsOf<ApplyRequest>()(
  z.object({
    layouts: Layouts,
    guard: z.object({ plan: z.string(), token: z.int() }),
    stream: z.string(),
    before: StreamStateJson.nullable(),
    after: StreamStateJson,
    tables: z.array(TableShape),
    scope: Scope,
    changes: z.array(
      z.object({ table: z.string(), rows: z.array(z.object({ key: ShardKey, image: Image })) }),
    ),
    ddl: z.string().nullable(),
    chunk: z.object({ table: z.string(), rows: Batch }).nullable(),
    changed: Digest.nullable(),
  }),
);

/** What of a document is sent as it is: all but what has rows in it, which is written below. */
type Plain<T> = Omit<T, "layouts" | "changes" | "chunk">;

/** The schema, which does not compile where it has other fields than what is sent by it. */
function withFieldsOf<Sent>() {
  return <Schema extends z.ZodType>(
    schema: SameFields<Plain<z.input<Schema>>, Plain<Sent>> extends true ? Schema : never,
  ): Schema => schema;
}

/** Writes what one snapshot of a source had as JSON. */
export function readAnswerToText(answer: ReadAnswer): string {
  const layouts = new LayoutList();
  const changes = answer.changes.map((change) => ({
    ...change,
    image: layouts.encode(change.image),
  }));
  const { chunk } = answer;
  const encoded = chunk === null ? null : { ...chunk, rows: encodeBatch(chunk.rows) };
  return JSON.stringify({ ...answer, changes, chunk: encoded, layouts: layouts.lists });
}

/** Reads what `readAnswerToText` wrote. */
export function readAnswerFromText(text: string): ReadAnswer {
  const { layouts, ...answer } = parsed(Answer, text);
  return {
    ...answer,
    changes: answer.changes.map((change) => ({
      ...change,
      image: decodeImage(layouts, change.image),
    })),
    chunk: answer.chunk === null ? null : { ...answer.chunk, rows: decodeBatch(answer.chunk.rows) },
  };
}

/** Writes what is to be applied to a target as JSON. */
export function applyRequestToText(request: ApplyRequest): string {
  const layouts = new LayoutList();
  const changes = request.changes.map(({ table, rows }) => ({
    table,
    rows: rows.map(({ key, image }) => ({ key, image: layouts.encode(image) })),
  }));
  const { chunk } = request;
  const encoded = chunk === null ? null : { ...chunk, rows: encodeBatch(chunk.rows) };
  return JSON.stringify({ ...request, changes, chunk: encoded, layouts: layouts.lists });
}

/** Reads what `applyRequestToText` wrote. Throws INPUT_INVALID for anything else. */
export function applyRequestFromText(text: string): ApplyRequest {
  const { layouts, ...request } = parsed(Request, text);
  return {
    ...request,
    changes: request.changes.map(({ table, rows }) => ({
      table,
      rows: rows.map(({ key, image }) => ({ key, image: decodeImage(layouts, image) })),
    })),
    chunk:
      request.chunk === null ? null : { ...request.chunk, rows: decodeBatch(request.chunk.rows) },
  };
}

/** Lists of columns, each of which stands in the text once. */
class LayoutList {
  readonly lists: (readonly string[])[] = [];
  #known = new Map<readonly string[], number>();

  encode(image: unknown): { layout: number; values: unknown[] } | null {
    if (image === null) return null;
    const { columns, values } = image as SqliteImage;
    const known = this.#known.get(columns);
    const layout = known ?? this.lists.push(columns) - 1;
    if (known === undefined) this.#known.set(columns, layout);
    return { layout, values: values.map(encodeValue) };
  }
}

function decodeImage(
  layouts: readonly (readonly string[])[],
  image: z.infer<typeof Image>,
): SqliteImage | null {
  if (image === null) return null;
  const columns = layouts[image.layout];
  if (columns === undefined) throw invalid(`there is no layout ${image.layout}`);
  return { columns, values: image.values.map(decodeValue) };
}

function encodeBatch({ count, bytes, body }: RowBatch): unknown {
  const { columns, rows } = body as SqliteRows;
  return { count, bytes, body: { columns, rows: rows.map((row) => row.map(encodeValue)) } };
}

function decodeBatch({ count, bytes, body }: z.infer<typeof Batch>): RowBatch {
  const rows = body.rows.map((row) => row.map(decodeValue));
  return { count, bytes, body: { columns: body.columns, rows } satisfies SqliteRows };
}

function encodeValue(value: SqliteValue): unknown {
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : ["i", String(value)];
  }
  if (typeof value === "number") {
    const isPlain = Number.isFinite(value) && !Object.is(value, -0);
    return ["r", isPlain ? value : Object.is(value, -0) ? "-0" : String(value)];
  }
  return value instanceof Uint8Array ? ["b", Buffer.from(value).toString("base64")] : value;
}

function decodeValue(value: unknown): SqliteValue {
  if (value === null || typeof value === "string") return value;
  if (Number.isSafeInteger(value)) return BigInt(value as number);
  const [kind, inner] = Array.isArray(value) ? (value as unknown[]) : [];
  if (kind === "r" && typeof inner === "number") return inner;
  if (typeof inner === "string") {
    if (kind === "i" && /^-?\d{1,19}$/.test(inner)) return BigInt(inner);
    if (kind === "r" && /^(?:-0|-?Infinity)$/.test(inner)) return Number(inner);
    if (kind === "b") return Buffer.from(inner, "base64");
  }
  throw invalid(`${JSON.stringify(value)} is no value of SQLite`);
}

/** Most values in a chunk of rows: ten thousand with some hundred columns each. */
const VALUES_MAX = 5_000_000;

function parsed<T>(schema: z.ZodType<T>, text: string): T {
  checkJsonBudget(text, VALUES_MAX);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw invalid("it is no JSON", error);
  }
  const result = checkValue(schema, json);
  if (!result.success) {
    const [first] = result.issues;
    const where = first?.path.map(String).join(".") ?? "";
    throw invalid(`${where}: ${first?.message ?? "it is wrong"}`);
  }
  return result.data;
}

function invalid(reason: string, cause?: unknown): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `What was sent to the shard is not understood: ${reason}.`,
    {
      cause,
    },
  );
}
