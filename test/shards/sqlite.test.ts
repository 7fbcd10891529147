import { shardConformance } from "./conformance/shard-conformance.ts";
import { openSqlitePair } from "./sqlite-pair.ts";

shardConformance("SQLite", openSqlitePair);
