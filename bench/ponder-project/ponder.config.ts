import { createConfig } from "ponder";
import { type Address, http, parseAbiItem } from "viem";

/*
 * The settings with which Ponder was fastest against a node of one's own: PostgreSQL instead of
 * PGlite, calls in batches, and no limit of requests in a second (50 unless told).
 */

const transfer = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);

export default createConfig({
  database: { kind: "postgres", connectionString: process.env["BENCH_DATABASE_URL"] ?? "" },
  networks: {
    local: {
      chainId: 31_337,
      transport: http(process.env["BENCH_NODE_URL"], { batch: true }),
      maxRequestsPerSecond: 1_000_000,
    },
  },
  contracts: {
    Token: {
      network: "local",
      abi: [transfer],
      address: process.env["BENCH_TOKEN"] as Address,
      startBlock: Number(process.env["BENCH_FROM"]),
      endBlock: Number(process.env["BENCH_TO"]),
    },
  },
});
