import { accessSync, constants, statfsSync } from "node:fs";
import { makePrivateDirectory } from "../../store/make-directory.ts";
import process from "node:process";
import { type Client, createClient } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { epochMsOf } from "../../kernel/instant.ts";
import type { Spec } from "../../work/definition/published-spec.ts";
import { outletsOf, webhookFault } from "../../server/webhooks/sender.ts";
import type { WebhookSpec } from "../../work/definition/spec.ts";
import { schemaSteps } from "../../store/schema-steps.ts";
import { type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { formatDuration } from "./options.ts";
import { loadSpecs, type ProjectFiles, requireProject } from "./project.ts";
import { createLog } from "./log.ts";
import { openStore } from "./engine-host.ts";
import { runningServer } from "./server-file.ts";

/** What one check found. */
export type Finding = { name: string; detail: string; failure: PawlError | null };

const NODE_NEEDED = [22, 18] as const;

/** Less than this is soon used up: 256 MiB. */
const DISK_FREE_BYTES_MIN = 268_435_456;

/** Leases and deadlines survive less; more is a clock that somebody should set. */
const CLOCK_SKEW_MS_MAX = 2_000;

/** As many of the newest active runs are looked through for tasks that nobody takes. */
const RUNS_LOOKED_AT = 20;

/** As many of the webhooks that are not in the code are looked at. */
const WEBHOOKS_LOOKED_AT = 200;

const TOKEN_REFUSALS: ReadonlySet<string> = new Set([
  "UNAUTHORIZED",
  "TOKEN_REQUIRED",
  "FORBIDDEN",
]);

/** Checks everything that Pawl needs here, one after the other, and goes on after a failure. */
export async function examine(cli: Cli, options: GlobalOptions): Promise<Finding[]> {
  const findings: Finding[] = [];
  const check = async (name: string, body: () => Promise<string> | string): Promise<void> => {
    try {
      findings.push({ name, detail: await body(), failure: null });
    } catch (error) {
      const failure = asFailure(error);
      findings.push({ name, detail: failure.message, failure });
    }
  };

  await check("node", nodeVersion);
  let project: ProjectFiles | null = null;
  await check("project", () => {
    const found = projectOf(cli, options);
    requireProject(found);
    project = found;
    return found.directory;
  });
  if (project === null) return findings;
  const found: ProjectFiles = project;
  const log = createLog(cli.terminal, cli.env, { level: "silent", pretty: true });
  let specs: readonly Spec[] | null = null;
  await check("definitions", async () => {
    const loaded = await loadSpecs(found, log);
    ({ specs } = loaded);
    return `${found.configPath}: ${loaded.specs.length} definitions`;
  });
  const known: readonly Spec[] | null = specs;
  if (known !== null) await check("webhooks", () => webhooks(known, found));
  await check("data directory", () => dataDirectory(found));
  await check("disk", () => diskFree(found));
  await check("store", () => store(found));
  await check("server", () => server(found));
  await check("clock", () => clock(found, cli.terminal.now));
  await check("workers", () => workers(found));
  return findings;
}

function nodeVersion(): string {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const [majorNeeded, minorNeeded] = NODE_NEEDED;
  if (major > majorNeeded || (major === majorNeeded && minor >= minorNeeded)) {
    return `Node ${process.versions.node}`;
  }
  throw new PawlError(
    "CONFIG_INVALID",
    `Node: expected ${NODE_NEEDED.join(".")} or newer, got ${process.versions.node}.`,
  );
}

/** Refuses webhooks that are never told: to an address that is not public, or without an SMTP server. */
async function webhooks(specs: readonly Spec[], project: ProjectFiles): Promise<string> {
  const ofCode = specs.flatMap((spec) => (spec.kind === "webhook" ? [spec] : []));
  const known = [...ofCode, ...(await webhooksMade(project))];
  for (const webhook of known) {
    const fault = await webhookFault(webhook, outletsOf(project.config));
    if (fault === null) continue;
    throw new PawlError(fault.code, `${webhook.name}: ${fault.message}`, {
      details: { ...fault.details },
    });
  }
  return known.length === 0 ? "there are none" : `${known.length} can be notified`;
}

type ToldWebhook = Pick<WebhookSpec, "name" | "url" | "email">;

/** Those that were made by command or over HTTP, where a server of this project runs to ask. */
async function webhooksMade(project: ProjectFiles): Promise<ToldWebhook[]> {
  // A server elsewhere has hosts of its own that it may tell.
  const running = await runningServer(project.dataDirectory);
  if (running === null || project.config.url !== null) return [];
  const client = clientOf(project, running.url);
  try {
    const query = { status: "ACTIVE", limit: WEBHOOKS_LOOKED_AT };
    const { items } = await client.call("listWebhooks", { query });
    return items.filter(({ origin }) => origin === "api");
  } catch (error) {
    // That a token is needed is told by the check of the server.
    if (error instanceof PawlError && TOKEN_REFUSALS.has(error.code)) return [];
    throw error;
  }
}

function clientOf({ config: { token } }: ProjectFiles, url: string): Client {
  return createClient(token === null ? { url } : { url, token });
}

function dataDirectory({ dataDirectory: directory }: ProjectFiles): string {
  try {
    makePrivateDirectory(directory);
    accessSync(directory, constants.W_OK);
    return directory;
  } catch (cause) {
    throw new PawlError(
      "DATA_DIRECTORY_UNWRITABLE",
      `The data directory ${directory} cannot be made or written.`,
      { cause, details: { data_dir: directory } },
    );
  }
}

function diskFree({ dataDirectory: directory }: ProjectFiles): string {
  const { bavail, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  const text = `${(free / 2 ** 30).toFixed(1)} GiB free`;
  if (free >= DISK_FREE_BYTES_MIN) return text;
  throw new PawlError("STORE_UNAVAILABLE", `The disk of ${directory} is almost full: ${text}.`);
}

async function store(project: ProjectFiles): Promise<string> {
  const opened = await openStore(project);
  try {
    const kind = project.config.database_url === null ? "sqlite" : "postgres";
    const steps = schemaSteps(kind).length;
    const warning = opened.unsafe === null ? "" : ` (unsafe: ${opened.unsafe})`;
    return `${opened.description}, schema step ${steps}${warning}`;
  } finally {
    await opened.close();
  }
}

async function serverUrl(project: ProjectFiles): Promise<string | null> {
  const { url } = project.config;
  return url ?? (await runningServer(project.dataDirectory))?.url ?? null;
}

async function server(project: ProjectFiles): Promise<string> {
  const url = await serverUrl(project);
  if (url === null) return "none runs; commands use the store directly";
  const ready = await createClient({ url }).call("readyz");
  return `${url}, version ${ready.version}, up for ${formatDuration(ready.uptime_seconds * 1_000)}`;
}

/** Refuses when tasks are ready that no worker has asked for lately. */
async function workers(project: ProjectFiles): Promise<string> {
  const url = await serverUrl(project);
  if (url === null) return "none is needed while no server runs";
  const client = clientOf(project, url);
  const lacking = new Set<string>();
  const query = { status: "PENDING,RUNNING", limit: RUNS_LOOKED_AT };
  for (const { run_id } of (await client.call("listRuns", { query })).items) {
    const tasks = await client.call("listTasks", {
      params: { run_id },
      query: { status: "READY" },
    });
    for (const task of tasks.items) if (task.lacks_worker) lacking.add(task.asset_key);
  }
  if (lacking.size === 0) return "no task waits for one that is not there";
  throw new PawlError(
    "CONFIG_INVALID",
    `Tasks of ${[...lacking].join(", ")} are ready, and no worker has asked for them within the ` +
      "last minute. Start one that has their code with `pawl worker`.",
    { details: { assets: [...lacking] } },
  );
}

async function clock(project: ProjectFiles, now: () => number): Promise<string> {
  const ms = await skewMs(project, now);
  if (ms === null) return "this machine's own";
  const text = `${formatDuration(Math.abs(ms))} ${ms < 0 ? "behind" : "ahead"}`;
  if (Math.abs(ms) <= CLOCK_SKEW_MS_MAX) return `in step (${text})`;
  throw new PawlError(
    "CONFIG_INVALID",
    `The clock here and that of the server differ: this one is ${text}.`,
  );
}

/** How far the clock here is ahead of the one that counts; null when it is that one. */
async function skewMs(project: ProjectFiles, now: () => number): Promise<number | null> {
  const url = await serverUrl(project);
  if (url !== null) {
    const answer = await fetch(`${url}/livez`);
    const date = answer.headers.get("date");
    // The header has whole seconds, cut off.
    return date === null ? null : now() - Date.parse(date) - 500;
  }
  if (project.config.database_url === null) return null;
  const opened = await openStore(project);
  try {
    return now() - epochMsOf(await opened.now());
  } finally {
    await opened.close();
  }
}

function asFailure(error: unknown): PawlError {
  if (error instanceof PawlError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new PawlError("INTERNAL", message, { cause: error });
}
