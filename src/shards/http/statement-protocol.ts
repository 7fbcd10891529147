import { z } from "zod";
import { TenantName } from "../../work/shard/spec.ts";
import { WireParameters, WireValue } from "./sql-values.ts";

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
