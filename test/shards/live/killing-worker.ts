import process from "node:process";
import { pino } from "pino";
import { connectWorker, type WorkerConnection } from "../../../src/client/worker-connection.ts";
import { PawlError } from "../../../src/kernel/errors.ts";
import type { ClaimAnswer } from "../../../src/work/run/protocol.ts";
import type { ShardAddress } from "../../../src/define/shards.ts";
import type { Guard, Shard } from "../../../src/shards/shard.ts";
import { openShard } from "../../../src/worker/steps/run-step.ts";
import { loadProject } from "../../../src/worker/load-project.ts";
import { runWorker } from "../../../src/worker/run-worker.ts";
import { idAfterLast } from "./id-after-last.ts";
import type { KillPoint } from "./kill-points.ts";

/*
 * A worker that stands still at points, and says so: whoever is to be killed there is killed by the
 * test. What is not killed goes on when it is told to. Its arguments are the address of the server,
 * the configuration, and `broken` when it is to read changes wrongly.
 */

/** Where splits of these tenants stand still, and whether to go on. */
export type ToKillingWorker = {
  points: readonly { tenant: string; point: KillPoint }[];
  goOn?: boolean;
};

/** A split has come to its point. */
export type FromKillingWorker = { type: "reached"; tenant: string };

/** More attempts than a run ever has, as in the tokens of guards. */
const ATTEMPTS_MAX = 1_000_000;

type Step = { readonly tenant: string; readonly step: string };

const logger = pino({ name: "killing worker", level: "warn" }, pino.destination(2));
const steps = new Map<number, Step>();
const pending = new Map<string, KillPoint>();
const calls = new Map<string, number>();
const halted = new Set<() => void>();
const [url = "", config = "", variant = ""] = process.argv.slice(2);

process.on("disconnect", () => process.exit(0));
const first = new Promise<void>((resolve) => {
  process.on("message", ({ points, goOn }: ToKillingWorker) => {
    if (goOn === true) {
      // Nobody stands still any more, nor does who does a step again.
      pending.clear();
      for (const go of halted) go();
    }
    for (const { tenant, point } of points) pending.set(tenant, point);
    resolve();
  });
});
await first;
const project = await loadProject(config);
const names = new Map([...project.shards].map(([name, address]) => [address, name]));
await runWorker({
  connection: watched(connectWorker({ url })),
  project,
  workerId: `killing:${process.pid}`,
  codeVersion: null,
  logger,
  signal: new AbortController().signal,
  openShard: async (address) => {
    const shard = await openShard(address);
    return standing(variant === "broken" ? idAfterLast(shard) : shard, address);
  },
});

/** Learns from claims which step a run is, and stands still beside commit records. */
function watched(connection: WorkerConnection): WorkerConnection {
  const learn = ({ groups }: Pick<ClaimAnswer, "groups">): void => {
    for (const { run_pos, step } of groups) {
      const tenant = step?.work === "split" ? step.tenants[0] : undefined;
      if (tenant === undefined || step === undefined) continue;
      steps.set(run_pos, { tenant, step: step.step });
    }
  };
  return {
    ...connection,
    async claim(request, signal) {
      const answer = await connection.claim(request, signal);
      learn(answer);
      return answer;
    },
    // A claim may go along with a report.
    async report(request) {
      const answer = await connection.report(request);
      learn(answer.claimed ?? { groups: [] });
      return answer;
    },
    sayStep: (word) =>
      word.record === null
        ? connection.sayStep(word)
        : beside(steps.get(word.run_pos), word.record, () => connection.sayStep(word)),
  };
}

/** Stands still beside calls of a shard that say for whom they are. */
function standing(shard: Shard, address: ShardAddress): Shard {
  return new Proxy(shard, {
    get(target, method) {
      const value: unknown = Reflect.get(target, method);
      if (typeof value !== "function") return value;
      return (...given: unknown[]): unknown => {
        const run = (): unknown => value.apply(target, given) as unknown;
        const step = stepOf(given[0]);
        if (step === undefined) return run();
        return beside(step, `${names.get(address)}.${String(method)}`, run);
      };
    },
  });
}

/** The step that a call is part of, by the guard that it carries. */
function stepOf(given: unknown): Step | undefined {
  const { token, guard } = (given ?? {}) as { token?: number; guard?: Guard };
  const known = guard?.token ?? token;
  return known === undefined ? undefined : steps.get(Math.floor(known / ATTEMPTS_MAX));
}

async function beside<Result>(
  step: Step | undefined,
  call: string,
  run: () => Result,
): Promise<Awaited<Result>> {
  if (step === undefined) return await run();
  const key = `${step.tenant} ${step.step} ${call}`;
  const n = (calls.get(key) ?? 0) + 1;
  calls.set(key, n);
  await haltAt(step, call, n, "before");
  const result = await run();
  await haltAt(step, call, n, "after");
  if (await haltAt(step, call, n, "unheard")) {
    throw new PawlError("SERVER_UNREACHABLE", "The answer was lost.");
  }
  return result;
}

async function haltAt(
  { tenant, step }: Step,
  call: string,
  n: number,
  when: KillPoint["when"],
): Promise<boolean> {
  const point = pending.get(tenant);
  if (point?.step !== step || point.call !== call || point.n !== n || point.when !== when) {
    return false;
  }
  pending.delete(tenant);
  const word: FromKillingWorker = { type: "reached", tenant };
  process.send?.(word);
  await new Promise<void>((resolve) => halted.add(resolve));
  return true;
}
