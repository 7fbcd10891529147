import { definePawl, postgresShard, type ShardAddress, shards, sqliteShard } from "pawl";
import { type LiveAddress, shardsFromEnvironment } from "./live-settings.ts";

const { east, west } = shardsFromEnvironment(process.env);

function addressOf(given: LiveAddress): ShardAddress {
  return given.type === "sqlite" ? sqliteShard(given.file) : postgresShard(given.connectionString);
}

export default definePawl({
  shards: shards({
    shards: { east: addressOf(east), west: addressOf(west) },
    tables: { accounts: "tenant", entries: "tenant" },
    // What is tried again is tried again soon, as tests wait for it.
    retry: {
      maxAttempts: "unbounded",
      maxLostAttempts: "unbounded",
      delayMs: 100,
      maxDelayMs: 500,
    },
  }),
});
