import { expect, test } from "vitest";
import { NOTABLE_SEEDS, NOTABLE_SYNC_SEEDS } from "./notable-seeds.ts";
import { simulate } from "./simulate.ts";
import { simulationSuite } from "./simulation-suite.ts";

simulationSuite("notable", NOTABLE_SEEDS, { syncs: false });
simulationSuite("notable, with syncs", NOTABLE_SYNC_SEEDS, { syncs: true });

// Leases that ran out together were taken back in the order of ids that the worker drew by itself.
test.for([47, 73])("I18: seed %i with syncs is the same simulation each time", async (seed) => {
  const one = await simulate(seed, { syncs: true });
  const other = await simulate(seed, { syncs: true });
  expect(one.events).toBeGreaterThan(30);
  expect(one.ledger.map(({ hash }) => hash)).toEqual(other.ledger.map(({ hash }) => hash));
});
