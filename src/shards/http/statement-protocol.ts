import { z } from "zod";
import { TenantName } from "../../work/shard/spec.ts";

/** A value of SQLite as better-sqlite3 has it. */
export type SqlValue = null | number | bigint | string | Uint8Array;

/** The parameters of a statement: in order, or by name. */
export type SqlParameters = readonly SqlValue[] | Readonly<Record<string, SqlValue>>;

/** A value in JSON: what JSON does not have is an object that names it. */
export const WireValue = z.union(
  [
    z.null(),
    z.number(),
    z.string(),
    z.strictObject({ integer: z.string().regex(/^-?\d{1,19}$/) }),
    // Not an enum: its type would have members named by numbers, which no declaration can write.
    z.strictObject({ real: z.literal(["Infinity", "-Infinity", "-0"]) }),
    z.strictObject({ blob: z.base64() }),
  ],
  {
    error:
      "must be null, a number, a text, or one of " +
      '{ "integer": "…" }, { "real": "Infinity" }, { "blob": "base64" }',
  },
);
export type WireValue = z.infer<typeof WireValue>;

/** The parameters of a statement in JSON. */
export const WireParameters = z.union(
  [z.array(WireValue).max(32_766), z.record(z.string(), WireValue)],
  { error: "must be a list of values, or an object of values by name" },
);
export type WireParameters = z.infer<typeof WireParameters>;

/** Writes a value as JSON has it; an integer that a number holds exactly is a number. */
export function toWire(value: SqlValue): WireValue {
  if (typeof value === "bigint") {
    const isExact = value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER;
    return isExact ? Number(value) : { integer: String(value) };
  }
  if (typeof value === "number") {
    if (Number.isNaN(value)) return null;
    if (!Number.isFinite(value)) return { real: value > 0 ? "Infinity" : "-Infinity" };
    return Object.is(value, -0) ? { real: "-0" } : value;
  }
  if (value instanceof Uint8Array) return { blob: Buffer.from(value).toString("base64") };
  return value;
}

/** Writes parameters as JSON has them. A bigint stays an integer, also a small one. */
export function parametersToWire(parameters: SqlParameters): WireParameters {
  const wire = (value: SqlValue): WireValue =>
    typeof value === "bigint" ? { integer: String(value) } : toWire(value);
  if (isList(parameters)) return parameters.map(wire);
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, wire(value)]));
}

function isList(parameters: SqlParameters): parameters is readonly SqlValue[] {
  return Array.isArray(parameters);
}

/** Reads a value that JSON carried. */
export function fromWire(value: WireValue): SqlValue {
  if (typeof value !== "object" || value === null) return value;
  if ("integer" in value) return BigInt(value.integer);
  if ("real" in value) return Number(value.real);
  return Buffer.from(value.blob, "base64");
}

/** Reads parameters that JSON carried. */
export function parametersFromWire(parameters: WireParameters): SqlParameters {
  if (Array.isArray(parameters)) return parameters.map(fromWire);
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => [name, fromWire(value)]),
  );
}

/** Most statements in a request, and rows in the answer to one. */
export const STATEMENTS_MAX = 1_000;
export const ROWS_MAX = 100_000;

/** Statements for one tenant, run in one transaction in which the epoch is checked. */
export const StatementsRequest = z.strictObject({
  tenant: TenantName,
  epoch: z.int().nonnegative(),
  statements: z
    .array(
      z.strictObject({
        sql: z.string().min(1).max(1_000_000),
        params: WireParameters.default([]),
      }),
    )
    .min(1)
    .max(STATEMENTS_MAX),
});
export type StatementsRequest = z.infer<typeof StatementsRequest>;

/** What a statement answered: its rows, and what it changed. */
export const StatementResult = z.object({
  columns: z.array(z.string()),
  rows: z.array(z.array(WireValue)),
  changes: z.int().nonnegative(),
  last_insert_rowid: WireValue,
});
export type StatementResult = z.infer<typeof StatementResult>;

/** What all statements of a request answered, in order. */
export const StatementsAnswer = z.object({ results: z.array(StatementResult) });
export type StatementsAnswer = z.infer<typeof StatementsAnswer>;
