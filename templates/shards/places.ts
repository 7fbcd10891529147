import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/* Where the shards are: two SQLite files. */

/** The shards that there are. */
export const SHARDS = ["east", "west"] as const;

/** The tenants; at first all of them are on the shard east. */
export const TENANTS = ["ash", "birch", "cedar", "fir", "oak"];

const data = process.env["DATA_DIR"] ?? join(import.meta.dirname, "data");

/** The file of a shard. */
export function fileOf(shard: (typeof SHARDS)[number]): string {
  return join(data, `${shard}.sqlite`);
}

/** Calls back with the database of a shard. */
export function withShard<Result>(
  shard: (typeof SHARDS)[number],
  use: (db: DatabaseSync) => Result,
): Result {
  mkdirSync(data, { recursive: true });
  const db = new DatabaseSync(fileOf(shard), { timeout: 10_000 });
  try {
    return use(db);
  } finally {
    db.close();
  }
}
