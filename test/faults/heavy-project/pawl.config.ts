import { asset, daily, definePawl, integers, multi, staticPartitions } from "pawl";

/*
 * Work that is legal and very large: what one commit would write of it, were it not bounded, is more
 * than a server's memory holds or PostgreSQL waits for.
 */

const keys = Array.from({ length: 5_000 }, (_, index) => `key-${String(index).padStart(4, "0")}`);

/** Some 230 million partitions. */
const grid = asset("grid", {
  partitions: multi({ day: daily({ start: "1900-01-01" }), key: staticPartitions(keys) }),
  materialize: () => {},
});

/** So many tasks of ten thousand partitions, none of which ends before all have begun. */
const TASKS = 40;
const { promise: haveAllBegun, resolve: allHaveBegun } = Promise.withResolvers<void>();
let begun = 0;

const batch = asset("batch", {
  partitions: integers({ start: 0, end: TASKS * 10_000 }),
  batch: true,
  async materialize() {
    begun += 1;
    if (begun === TASKS) allHaveBegun();
    await haveAllBegun;
  },
});

const small = asset("small", { materialize: () => {} });

export default definePawl({ assets: [grid, batch, small] });
