import { bullMq } from "./bullmq.ts";
import { dbos } from "./dbos.ts";
import { graphileWorker } from "./graphile-worker.ts";
import type { Peer } from "./peer.ts";
import { pgBoss } from "./pg-boss.ts";

/** Whom Pawl is measured beside. */
export const PEERS: readonly Peer[] = [graphileWorker, pgBoss, bullMq, dbos];
