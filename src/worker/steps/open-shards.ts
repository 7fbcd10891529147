import { PawlError } from "../../kernel/errors.ts";
import type { ShardAddress } from "../../define/shards.ts";
import type { Shard } from "../../shards/shard.ts";

/** Something that opens shards. */
export type ShardOpener = (address: ShardAddress) => Promise<Shard>;

/** Opens a shard where it is. Its driver is loaded then: most workers have no shards. */
export async function openShard(address: ShardAddress): Promise<Shard> {
  switch (address.type) {
    case "sqlite": {
      const { openSqliteShard } = await import("../../shards/sqlite/open-sqlite-shard.ts");
      return openSqliteShard({ file: address.file });
    }
    case "postgres": {
      const { openPostgresShard } = await import("../../shards/postgres/open-postgres-shard.ts");
      const { connectionString, schema } = address;
      return openPostgresShard({ connectionString, schema });
    }
    case "http": {
      const { openHttpShard } = await import("../../shards/http/open-http-shard.ts");
      return openHttpShard({ url: address.url, token: address.token });
    }
  }
}

/** The shards that a worker knows, each opened when it is first needed and kept open. */
export class OpenShards {
  readonly #addresses: ReadonlyMap<string, ShardAddress>;
  readonly #open = new Map<string, Promise<Shard>>();
  readonly #opener: ShardOpener;

  constructor(addresses: ReadonlyMap<string, ShardAddress>, opener: ShardOpener = openShard) {
    this.#addresses = addresses;
    this.#opener = opener;
  }

  /** The shard of a name. Throws SHARD_NOT_FOUND, and whatever keeps it from opening. */
  async shard(name: string): Promise<Shard> {
    const known = this.#open.get(name);
    if (known !== undefined) return known;
    const address = this.#addresses.get(name);
    if (address === undefined) {
      throw new PawlError(
        "SHARD_NOT_FOUND",
        `This worker's code does not say where the shard ${JSON.stringify(name)} is; it knows ` +
          `${[...this.#addresses.keys()].join(", ") || "none"}.`,
        { details: { shard: name } },
      );
    }
    const opening = this.#opener(address);
    this.#open.set(name, opening);
    // One that could not be opened is tried again by whoever needs it next.
    opening.catch(() => this.#open.delete(name));
    return opening;
  }

  async close(): Promise<void> {
    const open = [...this.#open.values()];
    this.#open.clear();
    const shards = await Promise.allSettled(open);
    await Promise.allSettled(
      shards.flatMap((each) => (each.status === "fulfilled" ? [each.value.close()] : [])),
    );
  }
}
