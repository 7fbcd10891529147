import { shardConformance } from "./conformance/shard-conformance.ts";
import { POSTGRES_DIALECT, postgresPair } from "./postgres-pair.ts";

shardConformance("PostgreSQL", () => postgresPair(POSTGRES_DIALECT));
