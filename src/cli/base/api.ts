import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { createLog } from "./log.ts";
import {
  hasDefinitions,
  loadSpecs,
  type ProjectFiles,
  publish,
  requireProject,
} from "./project.ts";
import { runningServer } from "./server-file.ts";
import { type Field, layoutFields, type Terminal } from "./terminal.ts";

/**
 * What a command needs when no server runs: the store whatever server runs, just the rows, the
 * project's definitions published, or all of that and a worker.
 */
export type Need = "store" | "rows" | "definitions" | "work";

/** A way to the API: a running server, or an engine in this process for as long as the command lasts. */
export interface Api {
  readonly client: Client;
  /** Whether the engine is in this process and ends with it. */
  readonly isEmbedded: boolean;
  /** Looks for a server again, or becomes one, after the one there was has gone. */
  reopen(): Promise<void>;
}

/** As `Api`, as a command gets it. */
export interface OwnApi extends Api {
  /** Keys of the assets that a worker of this command has the functions of. */
  readonly assets: readonly string[];
}

type Opened = {
  client: Client;
  isEmbedded: boolean;
  assets: readonly string[];
  close(): Promise<void>;
};

/** How long to look for the server of another command that is just starting. */
const OPEN_ATTEMPTS = 50;
const OPEN_PAUSE_MS = 200;

/** Runs `body` with a way to the API, and takes that way down afterwards. */
export async function withApi(
  cli: Cli,
  options: GlobalOptions,
  need: Need,
  body: (api: OwnApi) => Promise<void>,
): Promise<void> {
  const project = projectOf(cli, options);
  let opened = await open(cli, project, need);
  const api: OwnApi = {
    get client() {
      return opened.client;
    },
    get isEmbedded() {
      return opened.isEmbedded;
    },
    get assets() {
      return opened.assets;
    },
    async reopen() {
      await opened.close();
      opened = await open(cli, project, need);
    },
  };
  try {
    await body(api);
  } finally {
    await opened.close();
  }
}

async function open(cli: Cli, project: ProjectFiles, need: Need): Promise<Opened> {
  for (let attempt = 1; ; attempt++) {
    const client = await serverClient(project, need);
    if (client !== null) {
      return { client, isEmbedded: false, assets: [], close: async () => undefined };
    }
    requireProject(project);
    try {
      return await openEmbedded(cli, project, need);
    } catch (error) {
      // Another command has become the server in the meantime, and will say where it is.
      const isBusy = error instanceof PawlError && error.code === "STORE_LOCKED";
      if (!isBusy || need !== "work" || attempt >= OPEN_ATTEMPTS) throw error;
      await sleep(OPEN_PAUSE_MS, undefined, { signal: cli.signal });
    }
  }
}

/** The server that was named, or that runs for this project. */
async function serverClient(project: ProjectFiles, need: Need): Promise<Client | null> {
  const { url, token } = project.config;
  const access = token === null ? {} : { token };
  if (url !== null) return createClient({ url, ...access });
  if (need === "store") return null;
  const server = await runningServer(project.dataDirectory);
  return server === null ? null : createClient({ url: server.url, ...access });
}

async function openEmbedded(cli: Cli, project: ProjectFiles, need: Need): Promise<Opened> {
  const level = cli.terminal.json ? "silent" : "warn";
  const log = createLog(cli.terminal, cli.env, { level, pretty: true });
  if (need === "work") {
    const host = "127.0.0.1";
    const { startServing } = await import("./serving.ts");
    const serving = await startServing({ project, host, port: 0, worker: true, log });
    const { client, assets } = serving;
    return { client, isEmbedded: true, assets, close: () => serving.stop() };
  }
  const { openEngineHost } = await import("./engine-host.ts");
  const host = await openEngineHost(project, log);
  try {
    if (need === "definitions" && hasDefinitions(project)) {
      await publish(host.client, await loadSpecs(project, log));
    }
    return { client: host.client, isEmbedded: true, assets: [], close: () => host.close() };
  } catch (error) {
    await host.close();
    throw error;
  }
}

/** The line about work that goes on while a server runs; none where one does. */
export function idleText({ isEmbedded }: Api, what: string): string {
  return isEmbedded ? `\nNo server is running; ${what} while one does, see \`pawl start\`.` : "";
}

/** What to do next with work that was just asked for: commands, and the path of its page. */
type NextSteps = { watch?: string; show: string; logs: string; page: string };

/** Says to a person at a terminal what to do next; a script that reads the output gets nothing. */
export function nextSteps(
  { stdout, json }: Terminal,
  { client, isEmbedded }: OwnApi,
  { watch, show, logs, page }: NextSteps,
): { note?: string } {
  if (json || stdout.isTTY !== true) return {};
  const fields: Field[] = [
    ["  watch", watch ?? null],
    ["  show", show],
    ["  logs", logs],
    // One that is in this process has no page.
    ["  page", isEmbedded ? null : `${client.url}/${page}`],
  ];
  return { note: `Next:\n${layoutFields(fields)}` };
}

const SHORT_LENGTH = 8;

const ULID_LENGTH = 26;

/** What a ULID is written with, so that most names are told from the end of one. */
const CROCKFORD = /^[0-9A-HJKMNP-TV-Z]+$/i;

/** As many of the newest as are looked through for a short id. */
const LOOKED_THROUGH_MAX = 1_000;

/** What is shown of an id: enough to tell it from others, and taken back by every command. */
export function shortId(id: string): string {
  if (id.startsWith("run_")) return id.slice(0, "run_".length + SHORT_LENGTH);
  // A ULID begins with its time, which is the same for all of a burst; its end is chance. An id of
  // somebody's own is shown whole.
  return id.length === ULID_LENGTH && CROCKFORD.test(id) ? id.slice(-SHORT_LENGTH) : id;
}

/** Whether a text may be an id or a part of one. */
export function isIdLike(text: string): boolean {
  return CROCKFORD.test(text);
}

/**
 * The id that a text is or is a part of, among the newest; the text itself when it is no part of
 * one. Throws INPUT_INVALID when it is a part of several.
 */
export async function fullId<Item>(
  text: string,
  newest: AsyncIterable<Item> | Iterable<Item>,
  idOf: (item: Item) => string,
  fullLength = ULID_LENGTH,
): Promise<string> {
  if (text.length >= fullLength || text.length < 4) return text;
  const matches: string[] = [];
  let looked = 0;
  for await (const item of newest) {
    const id = idOf(item);
    if (id.startsWith(text) || id.endsWith(text.toUpperCase())) matches.push(id);
    looked++;
    if (looked >= LOOKED_THROUGH_MAX) break;
  }
  if (matches.length <= 1) return matches[0] ?? text;
  throw new PawlError(
    "INPUT_INVALID",
    `${text} means ${matches.length} of them: ${matches.slice(0, 3).join(", ")}. Give more of the id.`,
    { details: { matches } },
  );
}

/** The same for what has a name as well, which comes first; the API takes both. */
export async function nameOrFullId<Item extends { name: string; state: string }>(
  text: string,
  list: () => AsyncIterable<Item>,
  idOf: (item: Item) => string,
): Promise<string> {
  if (!isIdLike(text) || text.length >= ULID_LENGTH || text.length < 4) return text;
  const known: Item[] = [];
  for await (const item of list()) {
    if (item.name === text && item.state !== "DELETED") return text;
    known.push(item);
    if (known.length >= LOOKED_THROUGH_MAX) break;
  }
  return fullId(text, known, idOf);
}
