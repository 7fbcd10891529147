import pg from "pg";
import { AssertionFailure, type ErrorCode, PawlError } from "../../kernel/errors.ts";

/** What PostgreSQL's complaint means to an operator, by SQLSTATE or the class it begins with. */
const MEANINGS: Readonly<Record<string, { code: ErrorCode; sentence: string }>> = {
  "55P03": {
    code: "STORE_LOCKED",
    sentence: "Another process holds the workspace. Try again.",
  },
  "08": { code: "STORE_UNAVAILABLE", sentence: "The connection to PostgreSQL was lost." },
  "22": { code: "INPUT_INVALID", sentence: "PostgreSQL cannot keep one of the values." },
  "25006": {
    code: "STORE_UNAVAILABLE",
    sentence: "PostgreSQL is read-only, perhaps a standby. Connect to the primary.",
  },
  "25P03": {
    code: "STORE_UNAVAILABLE",
    sentence: "The transaction took too long and PostgreSQL ended it.",
  },
  "40": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL ended the transaction. Try again." },
  "53": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL lacks disk, memory or connections." },
  "57": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL is stopping or starting." },
  "58": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL cannot reach its files." },
  XX: {
    code: "STORE_CORRUPT",
    sentence: "PostgreSQL found damage. Read its log, and put back a backup if it says so.",
  },
  "28": { code: "CONFIG_INVALID", sentence: "PostgreSQL refused the user. Check DATABASE_URL." },
  "3D": { code: "CONFIG_INVALID", sentence: "There is no such database. Check DATABASE_URL." },
  "42501": {
    code: "CONFIG_INVALID",
    sentence: "The database user lacks a right. It must own the schema `pawl` or may create it.",
  },
};

/** The failure of a query, named; what PostgreSQL says about our own statements stays as it is. */
export function postgresFailure(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof PawlError) return error;
  if (!(error instanceof pg.DatabaseError)) {
    return new PawlError("STORE_UNAVAILABLE", `PostgreSQL cannot be reached (${error.message}).`, {
      cause: error,
    });
  }
  const state = error.code ?? "";
  if (state.startsWith("23")) {
    return new AssertionFailure(`the ledger and its rows take the write: ${error.message}`, {
      cause: error,
    });
  }
  const meaning = MEANINGS[state] ?? MEANINGS[state.slice(0, 2)];
  if (meaning === undefined) return error;
  // Callers are told what PostgreSQL says of their values and of who connects, not of its files.
  const isTold = meaning.code === "INPUT_INVALID" || meaning.code === "CONFIG_INVALID";
  const message = isTold ? `${meaning.sentence} (${error.message})` : meaning.sentence;
  return new PawlError(meaning.code, message, {
    details: { sqlstate: state },
    cause: error,
  });
}
