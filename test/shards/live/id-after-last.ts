import type { Shard } from "../../../src/shards/shard.ts";
import { replacing } from "../broken-shards.ts";

/**
 * A shard whose changes are read by their ids alone, as if ids were given out in the order of
 * commits: what commits late, with an id that others have overtaken, is passed by. What it gives and
 * takes is not compared either, as it would be with a digest of the keys that it knows of.
 */
export function idAfterLast(shard: Shard): Shard {
  const seen = new Map<string, bigint>();
  return replacing(shard, {
    async read(request) {
      const answer = await shard.read(request);
      const last = seen.get(request.from ?? "") ?? 0n;
      const through = BigInt(answer.through_id ?? "0");
      seen.set(answer.position, through > last ? through : last);
      const changes = answer.changes.filter(({ id }) => BigInt(id) > last);
      const changed = answer.changed === null ? null : { rows: 0, digest: "" };
      return { ...answer, changes, changed };
    },
    apply: (request) => shard.apply({ ...request, changed: null }),
  });
}
