import { setTimeout as sleep } from "node:timers/promises";
import { asset, daily, definePawl, doNotRetry, dynamicPartitions, type TaskContext } from "pawl";
import { isFirst, made, make, note } from "./effects.ts";

/*
 * The project that is run while its processes are killed. Everything it makes lies in files outside
 * of Pawl, the same however often it is made; beside them stands who made what and when, so that an
 * execution more can be told from an effect more.
 */

const days = daily({ start: "2000-01-01", end: "2040-01-01" });
/** A kill counts as an attempt, and there are many of them. */
const retry = {
  maxAttempts: "unbounded",
  maxLostAttempts: "unbounded",
  delayMs: 20,
  factor: 1.5,
  maxDelayMs: 200,
} as const;

function say(context: TaskContext, did: Parameters<typeof note>[0]["did"], checkpoint?: unknown) {
  const { asset: name, runId: run_id, attempt, partition } = context;
  note({ did, asset: name, run_id, attempt, partition, checkpoint: checkpoint ?? null });
}

/** Takes some time; about one partition in eight fails when it is tried first. */
async function labour(context: TaskContext, ms: number): Promise<void> {
  say(context, "started", context.lastCheckpoint);
  await sleep(ms * (0.2 + Math.random()));
  const number = Number(context.partition.replaceAll(/\D/g, ""));
  if (number % 8 !== 0 || !isFirst(`${context.asset}-${context.partition}`)) return;
  say(context, "failed");
  throw new Error("it fails at first");
}

const raw = asset("raw", {
  partitions: days,
  retry,
  async materialize(context) {
    await labour(context, 40);
    make("raw", context.partition, `raw ${context.partition}`);
    say(context, "made");
  },
});

const clean = asset("clean", {
  partitions: days,
  upstream: [raw],
  retry,
  async materialize(context) {
    const before = madeBefore("raw", context.partition);
    await labour(context, 30);
    make("clean", context.partition, `clean ${before}`);
    say(context, "made");
  },
});

const totals = asset("totals", {
  partitions: days,
  upstream: [clean],
  batch: true,
  retry,
  async materialize(context) {
    const before = context.partitions.map((partition) => madeBefore("clean", partition));
    await labour(context, 50);
    context.partitions.forEach((partition, at) => {
      make("totals", partition, `total of ${before[at]}`);
    });
    say(context, "made");
  },
});

/** Goes through its partitions one by one and keeps how far it got. */
const walk = asset("walk", {
  partitions: days,
  batch: true,
  retry,
  async materialize(context) {
    await labour(context, 10);
    let done = Number(context.lastCheckpoint ?? 0);
    while (done < context.partitions.length) {
      const partition = context.partitions[done] ?? "";
      await sleep(20 + Math.random() * 60, undefined, { signal: context.signal });
      make("walk", partition, `walked ${partition}`);
      done++;
      await context.checkpoint(done);
      say(context, "checkpointed", done);
    }
    say(context, "made");
  },
});

const items = asset("items", {
  partitions: dynamicPartitions("items"),
  retry,
  async materialize(context) {
    await labour(context, 30);
    make("items", context.partition, `item ${context.partition}`);
    say(context, "made");
  },
});

/** Never ends by itself, but obeys. */
const endless = asset("endless", {
  partitions: days,
  async materialize(context) {
    say(context, "started");
    await sleep(2 ** 30, undefined, { signal: context.signal });
  },
});

/** Takes longer than a server takes to start. */
const slow = asset("slow", {
  async materialize(context) {
    say(context, "started");
    await sleep(5_000, undefined, { signal: context.signal });
    say(context, "made");
  },
});

/** Ends at its second attempt. */
const stuck = asset("stuck", {
  async materialize(context) {
    say(context, "started");
    if (context.attempt === 1) await sleep(2 ** 30);
    say(context, "made");
  },
});

function madeBefore(upstream: string, partition: string): string {
  try {
    return made(upstream, partition);
  } catch {
    throw doNotRetry(`${upstream} of ${partition} is not made yet`);
  }
}

export default definePawl({ assets: [raw, clean, totals, walk, items, endless, slow, stuck] });
