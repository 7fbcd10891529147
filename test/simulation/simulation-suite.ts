import { beforeAll, describe, expect, test } from "vitest";
import { type Simulated, simulate, type SimulateOptions } from "./simulate.ts";

/** What every simulation is checked for, by the number of the promise. */
const PROMISES: Readonly<Record<string, string>> = {
  I2: "I2: positions are 1, 2, 3 and so on without a hole",
  I3: "I3: nothing that was acknowledged is missing",
  I4: "I4: what was decided together is recorded together",
  I5: "I5: an idempotency key has its effect once, and the same answer ever after",
  I6: "I6: a refused request uses up nothing",
  I7: "I7: a command that names a version changes that version or nothing",
  I8: "I8: every event's hash follows from the one before it",
  I11: "I11: nothing fails inside, and every stored event folds",
  I12: "I12, I13: a refold in any steps, with restarts, gives the live rows byte for byte",
  I14: "I14: the whole ledger delivered again changes no row",
  I19: "I19: ids and keys of derived things follow their formulas",
  I20: "I20: no time of a schedule is decided twice, with any number of servers",
  I21: "I21: every time of a schedule since its activation is decided, with a reason that holds",
  I22: "I22: no more times are caught up at once than the limit and the window allow",
  I24: "I24: changes of a schedule leave no time undecided and none decided by the wrong definition",
  I25: "I25: every message that was kept is evaluated once, however often it was delivered",
  I26: "I26: a cursor moves only from where it was read, and a stale evaluation has no effect",
  I27: "I27: a run key makes one run, and other requests for it are conflicts on record",
  I28: "I28: chunks cover the selection, each pair once and none outside",
  I29: "I29: a chunk is planned once per generation, and has one run",
  I30: "I30: never more chunks are active than the concurrency of the moment",
  I31: "I31: nothing is planned but while running, and only legal transitions happen",
  I32: "I32: a retry is for exactly what its parent left",
  I33: "I33: the counters of every backfill are right at every position",
  I34: "I34: attempts only grow, and no partition is made by two tasks at once",
  I35: "I35: only the current attempt has an effect",
  I36: "I36: an attempt ends once, a task succeeds once, and what has ended stays as it is",
  I37: "I18, I37: everything ends once faults stop, however the clock jumped",
  I87: "I87: no chunk is planned before its backfill's start, nor while its window is closed",
  I38: "I38: attempts stay within the retry policy and after the retry time",
  I39: "I39: no task starts before all it needs is there, none is skipped without a reason",
  I40: "I40: after a cancel nothing starts, and the outcome says so",
  I43: "I43: pools are never overfull and always emptied",
  I44: "I44, I45: partitions know their last attempt and their last success by order of start",
  I47: "I47: the segments of every sync tile what is planned, at every position",
  I48: "I48: synced_to is the end of the complete prefix, and nothing up to it is missing",
  I49: "I49: every block is stored exactly once in effect, whatever crashed meanwhile",
  I50: "I50: a rewrite opens again what lies above its fork, and nothing else",
  I51: "I51: a segment is run once per generation, and never beside an earlier run of it",
  I89: "I89: keys that an evaluation adds stand together with it",
  I90: "I90: removed keys keep their numbers, and are never stale",
  I70: "I70: ticks and their runs can be followed both ways, and stand together",
  I71: "I41, I71: with nothing due the ledger does not grow, however much workers ask and beat",
};

/** Runs many simulations, then has one test for each promise. */
export function simulationSuite(
  name: string,
  seeds: readonly number[],
  options: SimulateOptions = {},
): void {
  describe(`simulations: ${name}`, () => {
    const broken: Simulated[] = [];
    let events = 0;

    beforeAll(async () => {
      for (const seed of seeds) {
        const simulated = await simulate(seed, options);
        events += simulated.events;
        if (simulated.violations.count > 0) broken.push(simulated);
      }
    });

    test("covers enough to mean something", () => {
      expect(events / seeds.length).toBeGreaterThan(30);
    });

    test.for(Object.entries(PROMISES))("$1", ([promise]) => {
      expect(found(broken, options, (each) => each === promise)).toEqual([]);
    });

    test("breaks nothing that is not in the list", () => {
      expect(found(broken, options, (each) => !(each in PROMISES))).toEqual([]);
    });
  });
}

/** What was found, with the command that shows it again. */
function found(
  broken: readonly Simulated[],
  { syncs }: SimulateOptions,
  picks: (promise: string) => boolean,
): string[] {
  const flag = syncs === undefined ? "" : syncs ? " --syncs" : " --no-syncs";
  return broken.flatMap(({ seed, violations }) =>
    violations.list
      .filter(({ promise }) => picks(promise))
      .map(
        ({ what }) => `${what}\n  again: node scripts/simulate.ts --seeds ${seed}..${seed}${flag}`,
      ),
  );
}

/** The integers from the first to the last. */
export function seedsFrom(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
