import type { WatchSpec } from "../../../work/definition/automation.ts";
import { PawlError } from "../../../kernel/errors.ts";
import { instantOf } from "../../../kernel/instant.ts";
import type { ListedObject, ListObjects, ObjectItem } from "../../../define/watches.ts";
import { nameParts, pathPattern } from "./files.ts";
import { refuseTooManyUnseen, takeUnseen, type Version } from "./take-unseen.ts";
import type { Watcher } from "./open-watcher.ts";

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
