import { definePawl, type ShardAddress, shards } from "pawl";

/** Two shards of whatever kind, where the benchmark says they are. */
const { a, b } = JSON.parse(process.env["BENCH_SHARDS"] ?? "{}") as {
  a: ShardAddress;
  b: ShardAddress;
};

export default definePawl({
  shards: shards({ shards: { a, b }, tables: { events: "tenant_id" } }),
});
