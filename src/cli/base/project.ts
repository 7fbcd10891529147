import { existsSync, readFileSync, statSync, type FSWatcher, readdirSync, watch } from "node:fs";
import { dirname, join, resolve, relative } from "node:path";
import process from "node:process";
import { PawlError } from "../../kernel/errors.ts";
import { type Config, type ConfigField, loadConfig } from "../../engine/config.ts";
import type { Client } from "../../client/client.ts";
import type { AnswerOf } from "../../work/operations.ts";
import { shardWorkNames } from "../../work/shard/spec.ts";
import { workNameOf } from "../../work/sync/spec.ts";
import { forkWorker, type LoadedSpecs } from "../../worker/fork-worker.ts";
import type { WorkerLogger } from "../../worker/run-worker.ts";
import { ENV_FILE, readEnvFile, type Variables } from "./env-file.ts";

/** The file that defines a project. */
export const CONFIG_FILE = "pawl.config.ts";

/** Other names that it may have, for projects without TypeScript. */
const CONFIG_FILES = [CONFIG_FILE, "pawl.config.mts", "pawl.config.js", "pawl.config.mjs"];

const SETTINGS_FILE = "pawl.json";

/** A project on this machine: where it is, and how Pawl is configured there. */
export type ProjectFiles = {
  readonly directory: string;
  /** The file with its definitions, which need not exist. */
  readonly configPath: string;
  /** Whether there is a project at all, or just a folder. */
  readonly isThere: boolean;
  readonly config: Config;
  /** The folder of the embedded store, absolute. */
  readonly dataDirectory: string;
  /** What the project's `.env` adds to the environment of its code. */
  readonly variables: Variables;
};

/** What a project is found by. */
export type ProjectSearch = {
  cwd: string;
  env: Readonly<Record<string, string | undefined>>;
  /** The file given with --config. */
  configPath?: string | undefined;
  flags?: Readonly<Partial<Record<ConfigField, unknown>>> | undefined;
};

/** Finds the project of a folder: the nearest one upwards. Throws CONFIG_INVALID. */
export function findProject({ cwd, env, configPath, flags }: ProjectSearch): ProjectFiles {
  const named = configPath === undefined ? null : namedFile(cwd, configPath);
  const found = named === null ? nearest(cwd) : dirname(named);
  const directory = found ?? cwd;
  const variables = found === null ? {} : readEnvFile(directory);
  const settings = readSettings(directory);
  const envFile = { name: ENV_FILE, env: variables };
  const config = withToken(loadConfig({ file: settings, envFile, env, flags }), cwd);
  const files = CONFIG_FILES.map((name) => join(directory, name));
  return {
    directory,
    configPath: named ?? files.find((file) => existsSync(file)) ?? join(directory, CONFIG_FILE),
    isThere: found !== null,
    config,
    dataDirectory: resolve(directory, config.data_dir),
    variables,
  };
}

/** The environment of a project's code: its `.env`, and what this process has goes first. */
export function environmentOf({ variables }: Pick<ProjectFiles, "variables">): NodeJS.ProcessEnv {
  return { ...variables, ...process.env };
}

/** The file given with --config. Throws CONFIG_INVALID where it is none: a store is made beside it. */
function namedFile(cwd: string, configPath: string): string {
  const file = resolve(cwd, configPath);
  const isThere = configPath !== "" && existsSync(file);
  if (isThere && !statSync(file).isDirectory()) return file;
  const inside = `Name the file in it: ${join(file, CONFIG_FILE)}.`;
  const fault = isThere ? `${file}, which is a folder. ${inside}` : `${file}, which is not there.`;
  const got = configPath === "" ? '"". Leave it out to take the nearest project.' : fault;
  throw new PawlError("CONFIG_INVALID", `--config: expected the file of a project, got ${got}`, {
    details: { file: configPath === "" ? "" : file },
  });
}

/** The token itself where the configuration names the file that holds it. Throws CONFIG_INVALID. */
function withToken(config: Config, cwd: string): Config {
  if (config.token !== null || config.token_file === null) return config;
  const path = resolve(cwd, config.token_file);
  const token = readToken(path);
  if (token !== "") return { ...config, token };
  throw new PawlError("CONFIG_INVALID", `token_file: ${path} is empty; put the token in it.`, {
    details: { file: path },
  });
}

function readToken(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new PawlError(
      "CONFIG_INVALID",
      `token_file: expected a file with a token, got ${path}, which cannot be read (${code}).`,
      { cause, details: { file: path } },
    );
  }
}

/** The path of the embedded store's file. */
export function databasePath(project: ProjectFiles): string {
  return join(project.dataDirectory, "pawl.db");
}

/** Refuses to work in a folder that is no project. Throws CONFIG_INVALID. */
export function requireProject(project: ProjectFiles): void {
  if (project.isThere || project.config.database_url !== null) return;
  throw new PawlError(
    "CONFIG_INVALID",
    `There is no Pawl project in ${project.directory} or above it. ` +
      "Make one with `pawl init`, go to one, or name a server with --url.",
    { details: { directory: project.directory } },
  );
}

function nearest(start: string): string | null {
  for (let directory = resolve(start); ; directory = dirname(directory)) {
    const names = [...CONFIG_FILES, SETTINGS_FILE, ".pawl"];
    if (names.some((name) => existsSync(join(directory, name)))) return directory;
    if (dirname(directory) === directory) return null;
  }
}

function readSettings(directory: string): { name: string; value: unknown } | undefined {
  const path = join(directory, SETTINGS_FILE);
  if (!existsSync(path)) return undefined;
  try {
    return { name: SETTINGS_FILE, value: JSON.parse(readFileSync(path, "utf8")) };
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    // Node shows what stands around the fault, which may be a token.
    const reason = said.replace(/, (?:\.\.\.)?"[^]*"(?:\.\.\.)? is not valid JSON$/, "");
    throw new PawlError("CONFIG_INVALID", `${path} is not valid JSON: ${reason}.`, {
      cause,
      details: { file: path },
    });
  }
}

/** Loads a project's definitions in a process of their own, which ends again. */
export async function loadSpecs(project: ProjectFiles, logger: WorkerLogger): Promise<LoadedSpecs> {
  const { configPath } = project;
  const worker = await forkWorker({ configPath, logger, env: environmentOf(project) });
  await worker.stop();
  return worker.loaded;
}

/** Whether the project has a file with definitions at all. */
export function hasDefinitions(project: ProjectFiles): boolean {
  return existsSync(project.configPath);
}

/** Publishes a project's definitions; what it no longer has is removed. */
export function publish(
  client: Client,
  { specs }: LoadedSpecs,
): Promise<AnswerOf<"publishDefinitions">> {
  const body = { origin: "code" as const, specs: [...specs], prune: true };
  return client.call("publishDefinitions", { body });
}

/** The names of what workers do of some specs: keys of assets, work names of syncs and of shards. */
export function workNamesIn(specs: LoadedSpecs["specs"]): string[] {
  return specs.flatMap((spec) => {
    if (spec.kind === "sync") return [workNameOf(spec.name)];
    if (spec.kind === "shards") return shardWorkNames(spec.shards.map(({ shard }) => shard));
    return spec.kind === "asset" ? [spec.asset_key] : [];
  });
}

/** The refusal of a command without an option that it needs. */
export function optionMissing(option: string, expected: string): PawlError {
  return new PawlError("INPUT_INVALID", `${option}: expected ${expected}, got nothing.`, {
    details: { option },
  });
}

const CODE = /\.[cm]?[jt]s$/;

/** An editor saves in several steps; what comes so close together is one change. */
const QUIET_MS = 150;

/**
 * Calls back after a file with code has changed, once for what changes together, and never while
 * the call before is under way. Installed packages, hidden folders and data are no code.
 */
export function watchCode(
  directory: string,
  dataDirectory: string,
  changed: (path: string) => Promise<void>,
): { close(): void } {
  const watchers = new Map<string, FSWatcher>();
  let timer: NodeJS.Timeout | null = null;
  let calling: Promise<void> = Promise.resolve();

  function add(folder: string): void {
    if (watchers.has(folder) || folder === dataDirectory) return;
    const watcher = watch(folder, (_event, name) => {
      if (name !== null) touched(join(folder, name));
    });
    watcher.on("error", () => remove(folder));
    watchers.set(folder, watcher);
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory() && isCodeFolder(entry.name)) add(join(folder, entry.name));
    }
  }

  function remove(folder: string): void {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  }

  function touched(path: string): void {
    if (CODE.test(path)) {
      if (timer !== null) clearTimeout(timer);
      timer = setTimeout(() => {
        calling = calling
          .then(() => changed(relative(directory, path)))
          // What could not be started is reported by whoever started it.
          .catch(() => undefined);
      }, QUIET_MS);
      return;
    }
    const name = path.split(/[\\/]/).at(-1) ?? "";
    if (isCodeFolder(name) && isFolder(path)) add(path);
  }

  add(directory);
  return {
    close() {
      if (timer !== null) clearTimeout(timer);
      for (const folder of watchers.keys()) remove(folder);
    },
  };
}

function isCodeFolder(name: string): boolean {
  return name !== "node_modules" && !name.startsWith(".");
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
