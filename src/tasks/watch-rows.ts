import type { WatchSpec } from "../core/automation-specs.ts";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { postgresRows } from "./postgres-rows.ts";
import type { PlacedRow, RowPlace, RowSource } from "./row-source.ts";
import { sqliteRows } from "./sqlite-rows.ts";
import type { Watcher } from "./watcher.ts";

type RowsSpec = Extract<WatchSpec, { type: "rows" }>;

/** Looks for rows beyond a watermark. The address of the database is in no message it gives. */
export function watchRows(spec: RowsSpec, address: string, limit: number): Watcher {
  const source = rowSource(address);
  const { table, watermark, key } = spec;
  return {
    async look(cursor, signal) {
      const after = placeOf(cursor);
      // One row more than wanted shows whether the last group of equal watermarks is complete.
      const query = { table, watermark, key, after, limit: key === null ? limit + 1 : limit };
      const rows = await source(query, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        throw unreadable(spec, error);
      });
      const taken = key === null ? wholeGroups(spec, rows, limit) : withKeys(spec, rows);
      const last = taken.at(-1);
      return {
        items: taken.map(({ item }) => item),
        cursor: last === undefined ? cursor : JSON.stringify(last.place),
      };
    },
  };
}

function rowSource(address: string): RowSource {
  if (/^postgres(?:ql)?:\/\//.test(address)) return postgresRows(address);
  return sqliteRows(address.replace(/^(?:sqlite|file):(?:\/\/)?/, ""));
}

/** The rows that fit but for a group that does not fit whole: its rest would never be found. */
function wholeGroups(
  { table, watermark }: RowsSpec,
  rows: readonly PlacedRow[],
  limit: number,
): readonly PlacedRow[] {
  if (rows.length <= limit) return rows;
  const cutGroup = rows.at(-1)?.group;
  const whole = rows.filter(({ group }) => group !== cutGroup);
  if (whole.length > 0) return whole;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `More than ${limit} rows of ${table} have the same ${watermark}; name a unique column as key, ` +
      "so that they can be told apart.",
    { details: { table, watermark, limit } },
  );
}

function withKeys({ table, key }: RowsSpec, rows: readonly PlacedRow[]): readonly PlacedRow[] {
  if (rows.every(({ place }) => place.key !== null)) return rows;
  throw new PawlError(
    "INPUT_INVALID",
    `A row of ${table} has no ${key}, so it cannot be told apart from others; name a column as key ` +
      "that is never null.",
  );
}

function placeOf(cursor: string | null): RowPlace | null {
  if (cursor === null) return null;
  try {
    const { watermark, key = null } = JSON.parse(cursor) as { watermark?: Json; key?: Json };
    if (watermark !== undefined && watermark !== null) return { watermark, key };
  } catch {
    // Told of below.
  }
  throw new PawlError(
    "INPUT_INVALID",
    "The sensor's cursor is not one that this watch has written; reset it to start anew.",
  );
}

/** Kept as the cause, which says whether another try may help. */
function unreadable({ table }: RowsSpec, error: unknown): unknown {
  if (error instanceof PawlError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const cause = error instanceof Error && "code" in error ? error : undefined;
  const fault = new Error(`The rows of ${table} cannot be read: ${message.replace(/\.$/, "")}.`);
  return Object.assign(fault, cause === undefined ? {} : { code: cause.code });
}
