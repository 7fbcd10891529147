import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/*
 * The shards, the tenants that are on them at first, and where things are kept: in SQLite files, or
 * in PostgreSQL when `postgres.ts` runs or two addresses are given.
 */

/** The shards that there are. */
export const SHARDS = ["east", "west"] as const;

/** A shard that there is. */
export type ShardName = (typeof SHARDS)[number];

/** All tenants; at first each of them is on the shard `east`. */
export const TENANTS = ["ash", "birch", "cedar", "elm", "fir", "oak"];

/** How many accounts each tenant has. */
export const ACCOUNTS = 40;

/** How many entries each account begins with. */
export const ENTRIES = 50;

/** The folder of the shards and of what is known about the load. */
export const DATA =
  process.env["LIVE_SPLIT_DATA"] ?? fileURLToPath(new URL("data", import.meta.url));

/** Where `load.ts` says which writes were acknowledged. */
export const LOAD_FILE = join(DATA, "load.json");

/** Where `postgres.ts` says how to reach the databases. */
export const POSTGRES_FILE = join(DATA, "postgres.json");

/** The file of a shard that is kept in SQLite. */
export function fileOf(shard: ShardName): string {
  return join(DATA, `${shard}.sqlite`);
}

/** The address of a shard that is kept in PostgreSQL; null when shards are kept in SQLite. */
export function databaseOf(shard: ShardName): string | null {
  const given = process.env[`LIVE_SPLIT_${shard.toUpperCase()}`];
  if (given !== undefined) return given;
  try {
    const urls = JSON.parse(readFileSync(POSTGRES_FILE, "utf8")) as Record<ShardName, string>;
    return urls[shard];
  } catch {
    return null;
  }
}

/** The address of Pawl's server: that of the `pawl start` of this folder unless told. */
export function serverUrl(): string {
  const given = process.env["PAWL_URL"];
  if (given !== undefined) return given;
  const folder = process.env["PAWL_DATA_DIR"] ?? fileURLToPath(new URL(".pawl", import.meta.url));
  const { url } = JSON.parse(readFileSync(join(folder, "server.json"), "utf8")) as { url: string };
  return url;
}
