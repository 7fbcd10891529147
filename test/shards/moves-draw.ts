import type { Topology } from "../../src/work/shard/spec.ts";
import type { Random } from "../simulation/random.ts";

/** Draws a topology over some shards, for tenants named t0, t1 and so on. */
export function drawTopology(random: Random, shards: readonly string[]): Topology {
  switch (random.weighted({ tenant: 3, hash: 3, range: 2 })) {
    case "tenant": {
      const tenants: Record<string, string> = {};
      for (let tenant = 0; tenant < 12; tenant++) {
        if (random.chance(0.5)) tenants[`t${tenant}`] = random.pick(shards);
      }
      return { by: "tenant", tenants, default: random.pick(shards) };
    }
    case "hash": {
      const length = random.integer(1, 9);
      return { by: "hash", buckets: Array.from({ length }, () => random.pick(shards)) };
    }
    case "range": {
      const bounds = ["t1", "t2", "t3", "t5", "t8"].filter(() => random.chance(0.5));
      return {
        by: "range",
        ranges: [...bounds, null].map((below) => ({ below, shard: random.pick(shards) })),
      };
    }
  }
}

/** Draws how a table is cut into segments. */
export function drawStrategy(random: Random): object {
  switch (random.weighted({ uniform: 1, cardinality: 3, adaptive: 2 })) {
    case "uniform":
      return { type: "uniform", segments: random.integer(1, 6) };
    case "cardinality":
      return { type: "cardinality", rows: random.integer(1, 20) };
    case "adaptive":
      return { type: "adaptive", rows: random.integer(5, 40), target_ms: 100 };
  }
}
