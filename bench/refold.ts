import { atMost, type Benchmark, shown, told } from "./benchmark.ts";
import { startChild } from "./child-process.ts";
import { copyMillionEvents } from "./copy-million-events.ts";
import type { FromRefold } from "./refold-process.ts";

/** Folding a million events anew, as `pawl rebuild` does, and verifying them. */
export const refold: Benchmark = {
  name: "refold",
  about: "folding and verifying a million events",
  async run(bench) {
    const path = `${bench.folder}/ledger.sqlite`;
    await copyMillionEvents(bench, path);
    const child = startChild<FromRefold>(bench, "refold-process", { path });
    const { events, rebuildMs, rebuildCpuMs, verifyMs, rssPeakBytes } = await child.next("done");
    bench.say(`the refold took ${shown(rebuildCpuMs / 1_000)} s of CPU`);
    const setting = `${shown(events)} events`;
    const perMillion = 1e6 / events / 1_000;
    return [
      atMost("refold of a million events", setting, rebuildMs * perMillion, 12, "s"),
      told("verification of a million events", setting, verifyMs * perMillion, "s"),
      told("peak memory", setting, rssPeakBytes / 1e6, "MB"),
    ];
  },
};
