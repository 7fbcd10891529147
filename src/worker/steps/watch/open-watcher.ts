import type { WatchSpec } from "../../../work/definition/spec.ts";
import { PawlError } from "../../../kernel/errors.ts";
import { instantOf } from "../../../kernel/instant.ts";
import {
  nameParts,
  pathPattern,
  refuseTooManyUnseen,
  takeUnseen,
  type Version,
  watchFiles,
} from "./files.ts";
import { delimiter, resolve } from "node:path";
import type { Spec } from "../../../work/definition/published-spec.ts";
import type { ListedObject, ListObjects, ObjectItem, SensorCode } from "../../../define/sensor.ts";
import { watchRows } from "./rows.ts";
import type { Json } from "../../../kernel/canonical.ts";

type ObjectsSpec = Extract<WatchSpec, { type: "objects" }>;

/** Looks for objects that are new or have changed, in a store that the project's code lists. */
export function watchObjects(spec: ObjectsSpec, list: ListObjects, limit: number): Watcher {
  const matches = pathPattern(spec.pattern);
  return {
    async look(cursor, signal) {
      const versions = new Map<string, Version>();
      for await (const object of objectsOf(list, spec.prefix, signal)) {
        const { key } = object;
        if (typeof key !== "string" || !key.startsWith(spec.prefix)) continue;
        // Stores without folders keep empty objects in their place.
        if (key.endsWith("/") || !matches(key.slice(spec.prefix.length))) continue;
        versions.set(key, versionOf(object));
        refuseTooManyUnseen(versions.size, spec.prefix === "" ? "the store" : spec.prefix);
      }
      return takeUnseen(cursor, [...versions.values()], limit);
    },
  };
}

/** Everything the function lists, whichever way it does. */
async function* objectsOf(
  list: ListObjects,
  prefix: string,
  signal: AbortSignal,
): AsyncGenerator<ListedObject> {
  let after: string | null = null;
  let before = new Set<string>();
  for (;;) {
    signal.throwIfAborted();
    const listed = await list({ prefix, after, signal });
    if (!Array.isArray(listed)) {
      yield* iterated(listed as AsyncIterable<ListedObject>, signal);
      return;
    }
    const page: readonly ListedObject[] = listed;
    const fresh = page.filter(({ key }) => !before.has(key));
    // A function that does not page gives the same again; that ends it as an empty page does.
    const last = fresh.at(-1);
    if (last === undefined) return;
    yield* fresh;
    after = last.key;
    before = new Set(page.map(({ key }) => key));
  }
}

async function* iterated(
  listed: AsyncIterable<ListedObject>,
  signal: AbortSignal,
): AsyncGenerator<ListedObject> {
  if (typeof listed !== "object" || listed === null || !(Symbol.asyncIterator in listed)) {
    throw new PawlError(
      "INPUT_INVALID",
      "The function list of newObjects() must give an array of objects or an async iterable.",
    );
  }
  for await (const object of listed) {
    signal.throwIfAborted();
    yield object;
  }
}

function versionOf({ key, size, modifiedAt, etag = null }: ListedObject): Version {
  const changedMs = new Date(modifiedAt).getTime();
  if (Number.isNaN(changedMs)) {
    throw new PawlError(
      "INPUT_INVALID",
      `The object ${JSON.stringify(key)} is listed with modifiedAt ${JSON.stringify(modifiedAt)}; ` +
        "it must be a time.",
    );
  }
  return {
    identity: [key, size, changedMs, etag],
    changedAt: BigInt(changedMs),
    name: key,
    isSettled: true,
    item: (): ObjectItem => ({
      key,
      ...nameParts(key),
      size,
      modified_at: instantOf(changedMs),
      etag,
    }),
  };
}

/** What a watch needs beside its spec. */
export type WatchSurroundings = {
  /** What the project has of the sensor; null for one that it does not define. */
  code: SensorCode | null;
  environment: Readonly<Record<string, string | undefined>>;
  /** Where relative paths start. */
  folder: string;
  /** The folders that sensors may list, with all below them. */
  listable: readonly string[];
  /** How many items a look may find. */
  limit: number;
  /** Milliseconds since 1970. */
  now: () => number;
};

/** Opens a ready-made watch. Throws when this worker lacks what it needs, such as an address. */
export function openWatcher(watch: WatchSpec, surroundings: WatchSurroundings): Watcher {
  const { code, folder, listable, limit, now } = surroundings;
  switch (watch.type) {
    case "files": {
      const spec = { ...watch, folder: resolve(folder, watch.folder) };
      return watchFiles(spec, { limit, now, listable });
    }
    case "objects":
      if (code?.list === null || code?.list === undefined) {
        throw lacking(
          "This worker's code has no function list for the sensor; deploy code that has.",
        );
      }
      return watchObjects(watch, code.list, limit);
    case "rows":
      return watchRows(watch, placeOf(watch, surroundings), Math.min(limit, watch.limit));
    case "materializations":
    case "run_failures":
      throw lacking("Only the server can look into its ledger, and it did not.");
  }
}

/** The variable of a worker with further folders that sensors may list, as in PATH. */
const FOLDERS_VARIABLE = "SENSOR_FOLDERS";

/**
 * The folders that sensors may list on a worker: the project's own, those that its code watches, and
 * those of `SENSOR_FOLDERS`. Whoever may make a sensor over the API sees nothing else of the machine.
 */
export function listableFolders(
  folder: string,
  specs: readonly Spec[],
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  const watched = specs.flatMap((spec) =>
    spec.kind === "sensor" && spec.watch?.type === "files" ? [spec.watch.folder] : [],
  );
  const named = (environment[FOLDERS_VARIABLE] ?? "")
    .split(delimiter)
    .filter((each) => each !== "");
  return [folder, ...watched, ...named].map((each) => resolve(folder, each));
}

/** The address of a database; the path of a file starts at the project. */
function placeOf(watch: Extract<WatchSpec, { type: "rows" }>, surroundings: WatchSurroundings) {
  const address = addressOf(watch, surroundings);
  return /^[a-z]+:/.test(address) ? address : resolve(surroundings.folder, address);
}

function addressOf(
  { database_env }: Extract<WatchSpec, { type: "rows" }>,
  { code, environment }: WatchSurroundings,
): string {
  if (database_env === null) {
    const address = code?.database ?? null;
    if (address !== null) return address;
    throw lacking(
      "This worker's code has no database for the sensor; deploy code that has, or name an " +
        "environment variable that holds its address.",
    );
  }
  const address = environment[database_env];
  if (address !== undefined && address !== "") return address;
  throw lacking(
    `The environment variable ${database_env} is not set where this worker runs; set it to the ` +
      "path of an SQLite file or a postgres:// URL.",
  );
}

function lacking(message: string): PawlError {
  return new PawlError("CONFIG_INVALID", message);
}

/** What a look found, oldest first, and where the next one starts. */
export type PollResult = { items: Json[]; cursor: string | null };

/**
 * Looks at something outside for what is new since the cursor. The cursor is all that it remembers;
 * a look that finds nothing gives the very same cursor back.
 */
export interface Watcher {
  look(cursor: string | null, signal: AbortSignal): Promise<PollResult>;
}
