import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import {
  hasDefinitions,
  loadSpecs,
  publish,
  type ProjectFiles,
  requireProject,
} from "./project.ts";
import { createLog } from "./log.ts";
import { runningServer } from "./server-file.ts";

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
