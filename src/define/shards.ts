import { databaseAddress } from "../kernel/database-address.ts";
import { PawlError } from "../kernel/errors.ts";
import { SHARDS_NAME, ShardsSpec, validateShards } from "../work/shard/spec.ts";
import { type RetryOptions, retryFrom } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/** Where a shard is. It stays with workers: neither the ledger nor the API ever has it. */
export type ShardAddress =
  | { readonly type: "sqlite"; readonly file: string }
  | {
      readonly type: "postgres";
      readonly connectionString: string;
      readonly schema: string;
    }
  | { readonly type: "http"; readonly url: string; readonly token: string };

/** A shard in an SQLite file of this machine. */
export function sqliteShard(file: string): ShardAddress {
  requireText("sqliteShard()", "the path of a file", file);
  const address = databaseAddress(file, { subject: "sqliteShard()", code: "DEFINITION_INVALID" });
  if (address.type === "sqlite") return Object.freeze({ type: "sqlite", file });
  throw new PawlError(
    "DEFINITION_INVALID",
    "sqliteShard() needs the path of a file, not a postgres:// URL: use postgresShard().",
  );
}

/** A shard in a PostgreSQL database; its tables are in the schema `public` unless told. */
export function postgresShard(
  connectionString: string,
  { schema = "public" }: { schema?: string } = {},
): ShardAddress {
  requireText(
    "postgresShard()",
    "an address such as postgres://user@host/database",
    connectionString,
  );
  requireText("postgresShard()", "the name of a schema", schema);
  return Object.freeze({ type: "postgres", connectionString, schema });
}

/** An SQLite shard of another machine, where `pawl shard serve` runs. */
export function httpShard(
  url: string,
  { token }: { token: string },
): Extract<ShardAddress, { type: "http" }> {
  requireText("httpShard()", "an address such as http://host:port", url);
  requireText("httpShard()", "the token of the shard's server", token);
  return Object.freeze({ type: "http", url, token });
}

function requireText(subject: string, what: string, given: unknown): void {
  if (typeof given === "string" && given !== "") return;
  throw new PawlError(
    "DEFINITION_INVALID",
    `${subject} needs ${what}, not ${JSON.stringify(given) ?? "nothing"}.`,
  );
}

/** Everything that can be said about the shards of a workspace. */
export type ShardsOptions = {
  /** Where each shard is, by its name. */
  shards: Readonly<Record<string, ShardAddress>>;
  /**
   * The column that says whose a row is, by table. In the order in which they are copied: a table
   * after those that its foreign keys name.
   */
  tables: Readonly<Record<string, string>>;
  /** Lets `pawl split ddl` change the schema of these tables, on this project's workers; not unless told. */
  allowDdl?: boolean;
  retry?: RetryOptions;
  timeoutMs?: number;
  stallAfterMs?: number | null;
};

/** The shards of a workspace as defined. */
export type Shards = {
  readonly spec: ShardsSpec;
  readonly addresses: ReadonlyMap<string, ShardAddress>;
  /** Stays with workers, as the addresses do. */
  readonly allowsDdl: boolean;
};

const OPTIONS = ["shards", "tables", "allowDdl", "retry", "timeoutMs", "stallAfterMs"];

/** Defines the shards that moves and splits work on, and the tables that they have in common. */
export function shards(options: ShardsOptions): Shards {
  const subject = "The definition of shards";
  refuseUnknownOptions("shards()", options, OPTIONS);
  const { retry } = options;
  const addresses = Object.entries(recordOf("shards", options.shards));
  for (const [name, address] of addresses) requireAddress(name, address);
  const spec = parseDefinition(
    subject,
    ShardsSpec,
    withoutUndefined({
      kind: "shards",
      name: SHARDS_NAME,
      shards: addresses.map(([shard, { type }]) => ({
        shard,
        engine: type === "postgres" ? "postgres" : "sqlite",
      })),
      tables: Object.entries(recordOf("tables", options.tables)).map(([table, shard_by]) => ({
        table,
        shard_by,
      })),
      retry: retry === undefined ? undefined : retryFrom(subject, retry),
      timeout_ms: options.timeoutMs,
      stall_after_ms: options.stallAfterMs,
    }),
  );
  validateShards(spec);
  const allowsDdl = options.allowDdl ?? false;
  if (typeof allowsDdl !== "boolean") {
    throw new PawlError(
      "DEFINITION_INVALID",
      `shards() needs allowDdl to be true or false, not ${JSON.stringify(allowsDdl)}.`,
    );
  }
  return Object.freeze({ spec: Object.freeze(spec), addresses: new Map(addresses), allowsDdl });
}

function recordOf<Value>(option: string, given: Readonly<Record<string, Value>>) {
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return given;
  throw new PawlError(
    "DEFINITION_INVALID",
    `shards() needs ${option} by name, as in { ${option}: { … } }, not ${JSON.stringify(given) ?? "nothing"}.`,
    { details: { option } },
  );
}

const ADDRESS_TYPES: ReadonlySet<unknown> = new Set(["sqlite", "postgres", "http"]);

function requireAddress(name: string, given: unknown): void {
  const isAddress =
    typeof given === "object" && given !== null && "type" in given && ADDRESS_TYPES.has(given.type);
  if (isAddress) return;
  throw new PawlError(
    "DEFINITION_INVALID",
    `The shard ${name} needs an address: sqliteShard(), postgresShard() or httpShard().`,
    { details: { shard: name } },
  );
}
