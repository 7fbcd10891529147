import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../../src/client/client.ts";
import type { EventDocument } from "../../src/work/server-api.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { Random } from "../simulation/random.ts";
import { Violations } from "../simulation/violations.ts";
import { auditSchedules, AutomationAudit } from "./audit-automation.ts";
import { LedgerAudit } from "./audit-ledger.ts";
import { AutomationTraffic } from "./automation-traffic.ts";
import { allEvents } from "./kill-rounds.ts";
import {
  besideSite,
  type Exit,
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

const CONFIG = fileURLToPath(new URL("./automation-project/pawl.config.ts", import.meta.url));
const SCHEDULES = ["each-second", "one-at-a-time", "one-waits"];
const LEASE_MS = 3_000;
/** An evaluation that a killed worker held is free again once its time is up. */
const FINISH_WITHIN_MS = 600_000;

/** What was found after the last kill, when everything had come to its end. */
export type AutomationReport = {
  seed: number;
  violations: Violations;
  events: readonly EventDocument[];
  audit: AutomationAudit;
  traffic: AutomationTraffic;
  verify: Exit & { stdout: string; stderr: string };
  seconds: number;
};

/** Kills servers and workers while schedules tick and sensors are busy; then audits the ledger. */
export async function runAutomationRounds(options: {
  seed: number;
  kills: number;
  databaseUrl?: string;
}): Promise<AutomationReport> {
  const { seed, kills, databaseUrl } = options;
  const startedAt = performance.now();
  const random = new Random(seed);
  const violations = new Violations();
  const site = await openSite({
    leaseMs: LEASE_MS,
    config: CONFIG,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
  });
  const sites = databaseUrl === undefined ? [site] : [site, await besideSite(site)];
  const traffic = new AutomationTraffic(sites, random.fork());
  try {
    const servers = sites.map(startAlone);
    const workers = sites.map(startWorker);
    await Promise.all(servers.map(untilReady));
    traffic.start();
    for (let kill = 0; kill < kills; kill++) {
      // Workers only at first: what one held when it died is free again by the end.
      const isWorker = kill < kills / 3 && random.chance(0.6);
      await killOne(
        sites,
        isWorker ? workers : servers,
        isWorker ? startWorker : startAlone,
        random,
      );
    }
    await traffic.stop();
    await Promise.all(servers.map(untilReady));
    const client = createClient({ url: site.url });
    for (const name of SCHEDULES) await pause(client, name);
    const events = await finished(client, traffic, violations);
    const audit = new AutomationAudit(events);
    audit.check(traffic, violations);
    auditSchedules(events, violations);
    new LedgerAudit(violations).follow(events).checkEnded();
    await Promise.all([...workers, ...servers].map((process) => process.terminate()));
    const verify = await runCommand(site, ["verify"]);
    const seconds = (performance.now() - startedAt) / 1_000;
    return { seed, violations, events, audit, traffic, verify, seconds };
  } finally {
    await killAll();
    if (violations.count === 0) removeSite(site);
  }
}

function startAlone(site: Site): PawlProcess {
  return startServer(site, ["--no-worker"]);
}

/** Waits a moment, kills one and starts it again at once; now and then before it has come up. */
async function killOne(
  sites: readonly Site[],
  victims: PawlProcess[],
  start: (site: Site) => PawlProcess,
  random: Random,
): Promise<void> {
  const at = random.integer(0, victims.length - 1);
  const [victim, site] = [victims[at], sites[at]];
  if (victim === undefined || site === undefined) return;
  if (start === startAlone && random.chance(0.7)) await untilReady(victim);
  await sleep(random.integer(0, 1_000));
  await victim.kill();
  victims[at] = start(site);
}

/** Stops a schedule; one that was stopped although no answer came stays so. */
async function pause(client: Client, schedule_id: string): Promise<void> {
  await client.call("pauseSchedule", { params: { schedule_id }, body: {} }).catch((error) => {
    if (!(error instanceof PawlError) || error.code !== "STATE_ILLEGAL") throw error;
  });
}

async function finished(
  client: Client,
  traffic: AutomationTraffic,
  violations: Violations,
): Promise<EventDocument[]> {
  let events: EventDocument[] = [];
  let left: string[] = [];
  const isDone = async (): Promise<boolean> => {
    events = await allEvents(client);
    left = new AutomationAudit(events).unfinished(traffic);
    if (left.length > 0) await sleep(300);
    return left.length === 0;
  };
  await until(isDone, FINISH_WITHIN_MS).catch(() => {
    violations.add("I37", `is still open: ${left.join(", ")}`);
  });
  return events;
}
