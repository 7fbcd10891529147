import { randomUUID } from "node:crypto";
import { serveShard } from "../../src/cli/base/serve-shard.ts";
import { HttpShardClient } from "../../src/shards/http/http-shard-client.ts";
import { openHttpShard } from "../../src/shards/http/open-http-shard.ts";
import type { ShardPair, Side } from "./conformance/shard-conformance.ts";
import { openSqlitePair } from "./sqlite-pair.ts";

const TOKEN = "a-token-of-the-tests";

/**
 * Serves two empty SQLite files and opens a shard on each over HTTP; so does the application. Both
 * change schemas unless told not to.
 */
export async function openHttpPair(allowsDdl: { target?: false } = {}): Promise<ShardPair> {
  const pair = await openSqlitePair();
  const serve = async (side: Side) => {
    const [row] = await pair.sql(side, "pragma database_list");
    const file = String(row?.[2]);
    const place = { file, token: TOKEN, host: "127.0.0.1", port: 0 };
    return serveShard({ ...place, allowsDdl: { source: true, target: true, ...allowsDdl }[side] });
  };
  const servers = { source: await serve("source"), target: await serve("target") };
  const address = (side: Side) => ({ url: servers[side].url, token: TOKEN });
  const open = (side: Side) => openHttpShard(address(side));
  const shards = { source: await open("source"), target: await open("target") };
  const clients = {
    source: new HttpShardClient(address("source")),
    target: new HttpShardClient(address("target")),
  };
  return {
    ...pair,
    ...shards,
    open,
    write: async (side, tenant, epoch, ...texts) => {
      const statements = texts.map((sql) => ({ sql }));
      await clients[side].mutate(tenant, epoch, statements, randomUUID());
    },
    read: async (side, tenant, epoch, sql) => {
      const [result] = await clients[side].query(tenant, epoch, [{ sql }]);
      return (result?.rows ?? []).map((row) => Object.values(row));
    },
    close: async () => {
      for (const side of ["source", "target"] as const) {
        clients[side].close();
        await shards[side].close();
        await servers[side].stop();
      }
      await pair.close();
    },
  };
}
