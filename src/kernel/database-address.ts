import { type ErrorCode, PawlError } from "./errors.ts";

/** A database by its address: a PostgreSQL server by URL, or a file of SQLite by path. */
export type DatabaseAddress =
  | { readonly type: "postgres"; readonly url: string }
  | { readonly type: "sqlite"; readonly file: string };

/**
 * What an address stands for. A URL of any other database is refused with the code: as a path it would be a
 * new and empty file. The address may hold a password, so no message has more of it than its scheme.
 */
export function databaseAddress(
  address: string,
  { subject, code = "CONFIG_INVALID" }: { subject: string; code?: ErrorCode },
): DatabaseAddress {
  if (/^postgres(?:ql)?:/i.test(address)) return { type: "postgres", url: address };
  const file = address.replace(/^(?:sqlite|file):(?:\/\/)?/, "");
  const scheme = /^[a-z][a-z\d+.-]*:\/\//i.exec(file)?.[0];
  if (scheme === undefined) return { type: "sqlite", file };
  throw new PawlError(
    code,
    `${subject} is a ${scheme} URL; expected the path of an SQLite file or a postgres:// URL.`,
  );
}
