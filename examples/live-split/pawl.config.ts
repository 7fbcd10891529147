import { definePawl, postgresShard, type ShardAddress, shards, sqliteShard } from "pawl";
import { databaseOf, fileOf, type ShardName } from "./places.ts";

function addressOf(shard: ShardName): ShardAddress {
  const url = databaseOf(shard);
  return url === null ? sqliteShard(fileOf(shard)) : postgresShard(url);
}

export default definePawl({
  shards: shards({
    shards: { east: addressOf("east"), west: addressOf("west") },
    // In the order of their foreign keys, each with the column that says whose a row is.
    tables: { accounts: "tenant", entries: "tenant" },
    // Lets `pawl split ddl` change their schema.
    allowDdl: true,
  }),
});
