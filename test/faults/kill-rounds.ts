import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import type { EventDocument } from "../../src/work/server-api.ts";
import type { Client } from "../../src/client/client.ts";
import { Random } from "../simulation/random.ts";
import { Violations } from "../simulation/violations.ts";
import { LedgerAudit } from "./audit-ledger.ts";
import {
  besideSite,
  type Exit,
  isAlive,
  killAll,
  openSite,
  type PawlProcess,
  removeSite,
  runCommand,
  type Site,
  startServer,
  startWorker,
  until,
  untilReady,
} from "./pawl-process.ts";
import { type Deed, deedsFile, partitionFile } from "./project/effects.ts";
import { SettableClock } from "./set-clock.ts";
import { Traffic } from "./traffic.ts";

/** What to kill, and how often. */
export type KillOptions = {
  seed: number;
  /** Ends the kills: after so many of them, or at a time of one's own choice. */
  isEnough: (kills: number) => boolean;
  databaseUrl?: string;
  /** Says what goes on. */
  say: (line: string) => void;
};

/** What was found after the last kill, when all work was done. */
export type KillReport = {
  seed: number;
  kills: Record<Victim, number>;
  violations: Violations;
  events: readonly EventDocument[];
  audit: LedgerAudit;
  traffic: Traffic;
  /** What the servers complained of that no kill excuses. */
  complaints: readonly string[];
  deeds: readonly Deed[];
  /** How the last server and the workers ended when they were asked to. */
  exits: readonly Exit[];
  verify: Exit & { stdout: string; stderr: string };
  seconds: number;
};

/**
 * Who can be killed: a server, also while it starts or the one beside it, its worker, another. Some are
 * only frozen for a while, and some time the clock is set.
 */
type Victim = "server" | "starting" | "beside" | "child" | "worker" | "frozen" | "clock";

const WORKERS = 2;
const LEASE_MS = 3_000;
/** Lease, sweep, a retry, and a machine that has other things to do. */
const FINISH_WITHIN_MS = 600_000;
/** Longer than a lease: who wakes up then has lost what it held. */
const FROZEN_MS_MAX = 2 * LEASE_MS;
/** How far the clock is set back or ahead. */
const CLOCK_MS_MAX = 3_600_000;
const CHILD_ENDS_WITHIN_MS = 300_000;
const AS_OF_SAMPLES = 15;

/** Servers, the first with its worker child, and two workers of their own; any may be killed. */
class Victims {
  readonly kills: Record<Victim, number> = {
    server: 0,
    starting: 0,
    beside: 0,
    child: 0,
    worker: 0,
    frozen: 0,
    clock: 0,
  };
  readonly servers: PawlProcess[];
  readonly workers: PawlProcess[];
  readonly #started: PawlProcess[] = [];
  readonly #sites: readonly Site[];
  readonly #random: Random;
  readonly #violations: Violations;
  readonly #clock: SettableClock;
  readonly #orphans: Promise<void>[] = [];

  constructor(
    sites: readonly Site[],
    clock: SettableClock,
    random: Random,
    violations: Violations,
  ) {
    this.#sites = sites;
    this.#clock = clock;
    this.#random = random;
    this.#violations = violations;
    this.servers = sites.map((_, at) => this.#startServer(at));
    this.workers = Array.from({ length: WORKERS }, (_, at) => startWorker(this.#siteAt(at)));
  }

  get count(): number {
    return Object.values(this.kills).reduce((sum, count) => sum + count, 0);
  }

  async ready(): Promise<void> {
    await Promise.all(this.servers.map(untilReady));
  }

  /** Waits for a moment of the schedule, kills one and starts it again, or does something else to it. */
  async killOne(): Promise<string> {
    const random = this.#random;
    const beside = this.servers.length > 1 ? 4 : 0;
    const kills = { server: 5, starting: 2, beside, child: 2, worker: 4 };
    const victim = random.weighted({ ...kills, frozen: 3, clock: 1 });
    const delayMs = random.integer(0, victim === "starting" ? 900 : 800);
    if (victim !== "starting" && victim !== "beside") await untilReady(this.#first);
    await sleep(delayMs);
    this.kills[victim]++;
    if (victim === "frozen") await this.#freeze();
    else if (victim === "clock") await this.#clock.set(random.integer(-CLOCK_MS_MAX, CLOCK_MS_MAX));
    else if (victim === "worker") await this.#killWorker();
    else if (victim === "child") this.#killChild();
    else await this.#killServer(victim === "beside" ? 1 : 0);
    return `${this.count}: ${victim} after ${delayMs} ms`;
  }

  /** Resolves when every worker whose server was killed has ended too. */
  async noOrphans(): Promise<void> {
    await Promise.all(this.#orphans);
  }

  /** What servers complained of that no kill excuses. */
  complaints(): string[] {
    const lines = this.#started.flatMap(({ stderr }) => stderr.split("\n"));
    const complaints = lines.filter((line) =>
      /commit failed|assertion|"code":"INTERNAL"/.test(line),
    );
    // Who is frozen within a commit keeps others from theirs, until PostgreSQL hangs up on it.
    const isExcused = (line: string): boolean => /"code":"STORE_(?:LOCKED|UNAVAILABLE)"/.test(line);
    return complaints.filter((line) => this.kills.frozen === 0 || !isExcused(line));
  }

  async stop(): Promise<Exit[]> {
    const workers = await Promise.all(this.workers.map((worker) => worker.terminate()));
    const servers = await Promise.all(this.servers.map((server) => server.terminate()));
    return [...workers, ...servers];
  }

  get #first(): PawlProcess {
    return this.servers[0] as PawlProcess;
  }

  #siteAt(at: number): Site {
    return this.#sites[at % this.#sites.length] as Site;
  }

  #startServer(at: number): PawlProcess {
    const server = startServer(this.#siteAt(at), at === 0 ? [] : ["--no-worker"]);
    this.#started.push(server);
    return server;
  }

  async #killServer(at: number): Promise<void> {
    const server = this.servers[at] as PawlProcess;
    const children = server.children();
    await server.kill();
    this.servers[at] = this.#startServer(at);
    const gone = until(() => !children.some(isAlive), CHILD_ENDS_WITHIN_MS).catch(() => {
      this.#violations.add("I65", `the worker ${children.join()} of a killed server went on`);
    });
    this.#orphans.push(gone);
  }

  /** The server starts it again by itself. */
  #killChild(): void {
    for (const pid of this.#first.children()) process.kill(pid, "SIGKILL");
  }

  /** A server with its worker, or a worker, stands still, for less than a lease or for more. */
  async #freeze(): Promise<void> {
    const frozen = this.#random.pick([...this.servers, ...this.workers]);
    frozen.freeze();
    await sleep(this.#random.integer(100, FROZEN_MS_MAX));
    frozen.thaw();
  }

  async #killWorker(): Promise<void> {
    const at = this.#random.integer(0, WORKERS - 1);
    await this.workers[at]?.kill();
    this.workers[at] = startWorker(this.#siteAt(at));
  }
}

/** Kills what runs, again and again, while the API is used; then lets it finish and audits. */
export async function runKillRounds(options: KillOptions): Promise<KillReport> {
  const { seed, databaseUrl, say } = options;
  const startedAt = performance.now();
  const random = new Random(seed);
  const violations = new Violations();
  const opened = await openSite({
    leaseMs: LEASE_MS,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
  });
  const clock = new SettableClock(opened.directory, databaseUrl ?? null);
  const site = { ...opened, env: { ...opened.env, ...clock.env } };
  say(`seed ${seed}, in ${site.directory}`);
  // Several servers can only share a PostgreSQL.
  const sites = databaseUrl === undefined ? [site] : [site, await besideSite(site)];
  const victims = new Victims(sites, clock, random.fork(), violations);
  const urls = sites.map(({ url }) => url);
  const traffic = new Traffic(urls, random.fork(), violations);
  try {
    await victims.ready();
    traffic.start();
    while (!options.isEnough(victims.count)) say(await victims.killOne());
    // On a slow machine the kills may have left no time for it.
    await until(() => traffic.hasPaused, FINISH_WITHIN_MS);
    await traffic.stop();
    await victims.ready();
    await victims.noOrphans();
    const finishing = performance.now();
    await finished(traffic, violations);
    say(`all work ended ${Math.round(performance.now() - finishing)} ms after the last kill`);
    const events = await allEvents(traffic.client);
    const audit = new LedgerAudit(violations).follow(events);
    audit.checkEnded();
    await compareAsOf(traffic, events, random, violations);
    const deeds = readDeeds(site);
    auditAnswers(events, audit, traffic, violations);
    auditEffects(site, audit, deeds, violations);
    const exits = await victims.stop();
    const verify = await runCommand(site, ["verify"]);
    const seconds = (performance.now() - startedAt) / 1_000;
    const { kills } = victims;
    const complaints = victims.complaints();
    return {
      seed,
      kills,
      violations,
      events,
      audit,
      traffic,
      complaints,
      deeds,
      exits,
      verify,
      seconds,
    };
  } finally {
    await killAll();
    if (violations.count === 0) removeSite(site);
  }
}

async function finished(traffic: Traffic, violations: Violations): Promise<void> {
  let open: string[] = ["not looked yet"];
  const isDone = async (): Promise<boolean> => {
    open = await traffic.unfinished();
    return open.length === 0;
  };
  await until(isDone, FINISH_WITHIN_MS).catch(() => {
    violations.add("I37", `is still open: ${open.join(", ")}`);
  });
}

/** Everything in the ledger. */
export async function allEvents(client: Client): Promise<EventDocument[]> {
  const events: EventDocument[] = [];
  let after: number | null = 0;
  while (after !== null) {
    const query: { after: number; limit: number } = { after, limit: 200 };
    const page = await client.call("listEvents", { query });
    events.push(...page.items);
    after = page.next_after;
  }
  return events;
}

/** The counters of backfills as they were are what the ledger says up to there. */
async function compareAsOf(
  { client, backfills }: Traffic,
  events: readonly EventDocument[],
  random: Random,
  violations: Violations,
): Promise<void> {
  for (let sample = 0; sample < AS_OF_SAMPLES; sample++) {
    const { id } = random.pick(backfills);
    const created = events.find(
      ({ type, data }) =>
        type === "BackfillCreated" && (data as { backfill_id: string }).backfill_id === id,
    );
    const as_of = random.integer(created?.pos ?? 1, events.length);
    const audit = new LedgerAudit(new Violations()).follow(events.slice(0, as_of));
    const backfill = audit.backfills.get(id);
    if (backfill === undefined) continue;
    const document = await client.call("getBackfill", {
      params: { backfill_id: id },
      query: { as_of },
    });
    for (const [name, count] of Object.entries(audit.chunkCounts(backfill))) {
      const shown = document[`chunks_${name}` as "chunks_planned"];
      violations.check(shown === count, "I33", `${id} at ${as_of}: ${shown} ${name}, not ${count}`);
    }
  }
}

/** Nothing that was acknowledged is lost, and nothing that was asked for again is there twice. */
function auditAnswers(
  events: readonly EventDocument[],
  audit: LedgerAudit,
  { acknowledged, backfills, runs, keys }: Traffic,
  violations: Violations,
): void {
  const posOf = new Map(events.map((event) => [event.event_id, event.pos]));
  for (const { what, event_id, pos, correlation_id } of acknowledged) {
    if (event_id === null) continue;
    // The change may have recorded several events: it names the first, and where the last stands.
    const first = posOf.get(event_id) ?? Infinity;
    const own = events.slice(first - 1, pos);
    const isThere = own.length > 0 && own.every((event) => event.correlation_id === correlation_id);
    violations.check(isThere, "I3", `${what} is in the ledger at ${pos}`);
  }
  const created = [...audit.backfills.values()];
  violations.check(created.length === backfills.length, "I60", "there is no backfill too many");
  for (const { key, id, partitionKeys, assets } of backfills) {
    const made = created.filter(({ data }) => data.client_request_id === key);
    violations.check(
      made.length === 1 && made[0]?.data.backfill_id === id,
      "I60",
      `${key} made backfill ${id}, once`,
    );
    const [backfill] = made;
    if (backfill?.state !== "SUCCEEDED") continue;
    const covered = backfill.partitionKeys.toSorted().join();
    violations.check(covered === partitionKeys.join(), "I28", `${key} has exactly its days`);
    const isWhole = backfill.data.asset_selection.toSorted().join() === assets.toSorted().join();
    violations.check(isWhole, "I28", `${key} has exactly its assets`);
  }
  for (const { key } of runs) {
    violations.check(audit.runKeys.has(`manual:${key}`), "I60", `${key} made a run`);
  }
  const manual = [...audit.runKeys].filter((key) => key.startsWith("manual:"));
  violations.check(manual.length === runs.length, "I60", "there is no run too many");
  const added = (audit.dynamicKeys.get("items") ?? []).toSorted().join();
  violations.check(added === [...keys].toSorted().join(), "I60", "every key was added, once");
}

/** What the ledger calls made is there, and what it has not seen ended was tried again. */
function auditEffects(
  site: Site,
  audit: LedgerAudit,
  deeds: readonly Deed[],
  violations: Violations,
): void {
  for (const run of audit.runs.values()) {
    for (const { assetKey, partitionKeys, outcome } of run.tasks) {
      if (outcome !== "SUCCEEDED") continue;
      for (const key of partitionKeys) {
        const isThere = existsSync(partitionFile(site.directory, assetKey, key));
        violations.check(isThere, "I36", `${assetKey} of ${key} is made`);
      }
    }
  }
  const walks = Map.groupBy(
    deeds.filter(({ asset }) => asset === "walk"),
    ({ run_id, partition }) => `${run_id} ${partition}`,
  );
  for (const [name, steps] of walks) {
    for (const { attempt, checkpoint } of steps.filter(({ did }) => did === "started")) {
      const acknowledged = steps
        .filter((step) => step.did === "checkpointed" && step.attempt < attempt)
        .map((step) => Number(step.checkpoint));
      const last = Math.max(0, ...acknowledged);
      violations.check(
        Number(checkpoint ?? 0) >= last,
        "I35",
        `attempt ${attempt} of ${name} got checkpoint ${String(checkpoint)}, not ${last}`,
      );
    }
  }
}

function readDeeds(site: Site): Deed[] {
  const text = readFileSync(deedsFile(site.directory), "utf8");
  return text
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => JSON.parse(line) as Deed);
}

/** A line that sums a report up. */
export function summaryOf({ seed, kills, events, traffic, deeds, seconds }: KillReport): string {
  const executions = deeds.filter(({ did }) => did === "started").length;
  const made = deeds.filter(({ did }) => did === "made").length;
  return [
    `seed ${seed}: ${Object.values(kills).reduce((sum, count) => sum + count, 0)} faults`,
    `(${kills.server} of the server, ${kills.starting} while it started, ${kills.beside} of the one`,
    `beside it, ${kills.child} of its worker, ${kills.worker} of others killed, ${kills.frozen} frozen, the clock`,
    `set ${kills.clock} times) in ${seconds.toFixed(0)} s; ${events.length} events,`,
    `${traffic.backfills.length} backfills, ${traffic.runs.length} runs,`,
    `${traffic.acknowledged.length} acknowledged changes, ${traffic.answersLost} lost answers,`,
    `${executions} executions of which ${made} reached their end`,
  ].join(" ");
}
