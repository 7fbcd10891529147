import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import pg from "pg";
import { asRefusal } from "./enter.ts";

/** What PostgreSQL's complaint means to an operator, by SQLSTATE or the class it begins with. */
const MEANINGS: Readonly<Record<string, { code: ErrorCode; sentence: string }>> = {
  "08": { code: "SHARD_UNREACHABLE", sentence: "The connection to the shard was lost." },
  "22": { code: "INPUT_INVALID", sentence: "The shard cannot read one of the values." },
  "23": { code: "ROWS_CONFLICT", sentence: "A constraint of the shard refuses the rows." },
  "25006": { code: "SHARD_UNREACHABLE", sentence: "The shard is read-only, perhaps a standby." },
  "25P03": { code: "SHARD_BUSY", sentence: "The transaction took too long and was ended." },
  "28": { code: "SHARD_UNREACHABLE", sentence: "The shard refuses the user." },
  "3D": { code: "SHARD_UNREACHABLE", sentence: "The shard's database does not exist." },
  "40": { code: "SHARD_BUSY", sentence: "The shard ended the transaction." },
  "42501": { code: "CONFIG_INVALID", sentence: "The shard's user lacks a right." },
  "42703": { code: "SCHEMA_CHANGED", sentence: "A column is not there any more." },
  "42804": { code: "SCHEMA_CHANGED", sentence: "A column has another type now." },
  "42P01": { code: "SCHEMA_CHANGED", sentence: "A table is not there." },
  "3F000": { code: "STATE_ILLEGAL", sentence: "Pawl is not installed in the shard." },
  "53": { code: "SHARD_BUSY", sentence: "The shard lacks disk, memory, locks or connections." },
  "55P03": { code: "SHARD_BUSY", sentence: "The shard could not be locked in time." },
  "57014": { code: "SHARD_BUSY", sentence: "The shard did not finish in time." },
  "57": { code: "SHARD_UNREACHABLE", sentence: "The shard is stopping or starting." },
  "58": { code: "SHARD_UNREACHABLE", sentence: "The shard cannot reach its files." },
};

/** The SQLSTATE of an error, however it is wrapped; empty for one that is not PostgreSQL's. */
export function sqlState(error: unknown): string {
  if (error instanceof pg.DatabaseError) return error.code ?? "";
  if (error instanceof PawlError) return sqlState(error.cause);
  return "";
}

/** The failure of a statement, named; what PostgreSQL says about our own statements stays as it is. */
export function shardFailure(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof PawlError) return error;
  const refusal = asRefusal(error);
  if (refusal !== null) return refusal;
  if (!(error instanceof pg.DatabaseError)) {
    return new PawlError("SHARD_UNREACHABLE", `The shard cannot be reached (${error.message}).`, {
      cause: error,
    });
  }
  const state = error.code ?? "";
  const meaning = MEANINGS[state] ?? MEANINGS[state.slice(0, 2)];
  if (meaning === undefined) return error;
  const where = [error.message, error.detail].filter((part) => part !== undefined).join(": ");
  return new PawlError(meaning.code, `${meaning.sentence} (${where})`, {
    details: { sqlstate: state, table: error.table ?? null },
    cause: error,
  });
}
