import type { SyncCode, SyncContext, SyncRange } from "../../src/define/automation-context.ts";
import type { Random } from "./random.ts";
import { SimulatedChain } from "./simulated-chain.ts";
import type { SimulatedDatabase } from "./simulated-database.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

/** What the functions of a sync use. */
export type SyncCodeWorld = {
  random: Random;
  database: SimulatedDatabase;
  chain: (source: string) => SimulatedChain;
  /** The process that runs the functions. */
  process: SimulatedProcess;
};

/** The functions that a user would write: what is read is stored in one transaction. */
export function simulatedSyncCode(world: SyncCodeWorld): SyncCode {
  const { random, database, chain, process } = world;
  const copy = async (range: SyncRange, context: SyncContext): Promise<number> => {
    const { from, to, undo } = range;
    const { source, signal, syncId, segment, attempt } = context;
    const rows = await process.ask(() => chain(source).readBlocks(from, to, signal));
    signal.throwIfAborted();
    const { index, generation } = segment;
    const fence = { segment: index, generation, attempt };
    await process.ask(async () => database.store({ syncId, undo, rows, fence }));
    return rows.length;
  };
  return {
    async fetch(range, context) {
      const { from, to } = range;
      const middle = Math.floor((from + to) / 2);
      // Some read in steps and say so, some say how far they got and are called again.
      const manner = from < to ? random.weighted({ whole: 6, steps: 2, part: 1 }) : "whole";
      if (manner === "whole") return { rows: await copy(range, context) };
      const rows = await copy({ ...range, to: middle }, context);
      await context.progressTo(middle);
      if (manner === "part") return { rows };
      const rest = { ...range, from: middle + 1, undo: null };
      return { rows: rows + (await copy(rest, context)) };
    },
    head: ({ source, signal }) => process.ask(() => chain(source).readHead(signal)),
    hash: (block, { source, signal }) => process.ask(() => chain(source).readHash(block, signal)),
    async verify({ from, to }, { source, signal, syncId }) {
      const asked = chain(source);
      await process.ask(() => asked.readHash(to, signal));
      const stored = database.rowsOf(syncId);
      for (let block = from; block <= to; block++) {
        const expected = SimulatedChain.hasRow(block) ? asked.hashOf(block) : "";
        if (stored.at(block).join() !== expected) return { ok: false, note: `block ${block}` };
      }
      return true;
    },
    verifyEachSegment: random.chance(0.3),
  };
}
