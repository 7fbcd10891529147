import { shardConformance } from "./conformance/shard-conformance.ts";
import { openHttpPair } from "./http-pair.ts";

shardConformance("HTTP", openHttpPair);
