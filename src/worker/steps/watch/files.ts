import { createHash } from "node:crypto";
import type { BigIntStats, Dirent } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { resolve, sep } from "node:path";
import type { FileItem } from "../../../define/sensor.ts";
import type { Json } from "../../../kernel/canonical.ts";
import { PawlError } from "../../../kernel/errors.ts";
import { instantOf } from "../../../kernel/instant.ts";
import { globMatches } from "../../../kernel/keyspace/selector.ts";
import type { WatchSpec } from "../../../work/definition/spec.ts";
import type { PollResult, Watcher, WatchSurroundings } from "./open-watcher.ts";

/**
 * Whether a path within a folder, or a key after its prefix, matches: a pattern without a slash is
 * held against the last part. Names with a dot in front are hidden unless the pattern has one too.
 */
export function pathPattern(pattern: string): (path: string) => boolean {
  if (pattern.split("/").includes("..")) {
    throw new PawlError(
      "INPUT_INVALID",
      `The pattern ${JSON.stringify(pattern)} has a part that is "..", which leads out of what is ` +
        "watched; leave it out.",
    );
  }
  const isOfPath = pattern.includes("/");
  const seesHidden = pattern.slice(pattern.lastIndexOf("/") + 1).startsWith(".");
  return (path) => {
    const name = lastPart(path);
    if (name.startsWith(".") && !seesHidden) return false;
    return globMatches(pattern, isOfPath ? path : name);
  };
}

/** The parts of a path or key that people name things after. */
export function nameParts(path: string): { name: string; stem: string; extension: string } {
  const name = lastPart(path);
  const dot = name.lastIndexOf(".");
  // A dot in front makes a name hidden, and is not where its extension starts.
  return dot > 0
    ? { name, stem: name.slice(0, dot), extension: name.slice(dot) }
    : { name, stem: name, extension: "" };
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

type FilesSpec = Extract<WatchSpec, { type: "files" }>;

/** Something in the folder, by its path there, written with slashes. */
type Entry = { path: string; isLink: boolean };

/** How many files are asked about at once. */
const STATS_AT_ONCE = 32;
const NS_PER_MS = 1_000_000n;

/**
 * Looks for files that are new or have changed. A file is another one when its path, its size or its
 * time of change is, so what is moved in, renamed or replaced is found, however old it is.
 */
export function watchFiles(
  spec: FilesSpec,
  { limit, now, listable }: Pick<WatchSurroundings, "limit" | "now" | "listable">,
): Watcher {
  const folder = resolve(spec.folder);
  const matches = pathPattern(spec.pattern);
  return {
    async look(cursor, signal) {
      await refuseUnlistable(folder, listable);
      const entries: Entry[] = [];
      for await (const entry of entriesBelow(folder, "", spec.recursive, signal)) {
        if (matches(entry.path)) entries.push(entry);
        refuseTooManyUnseen(entries.length, folder);
      }
      const startedAt = now();
      // A time far in the future is no sign of writing going on, or such a file would wait for it.
      const isSettled = (ms: number) => Math.abs(startedAt - ms) >= spec.settle_ms;
      const versions: Version[] = [];
      for (let at = 0; at < entries.length; at += STATS_AT_ONCE) {
        signal.throwIfAborted();
        const some = entries.slice(at, at + STATS_AT_ONCE);
        const found = await Promise.all(some.map((entry) => statsOf(folder, entry)));
        for (const [index, stats] of found.entries()) {
          const path = some[index]?.path ?? "";
          if (stats !== null) versions.push(versionOf(folder, path, stats, isSettled));
        }
      }
      return takeUnseen(cursor, versions, limit);
    },
  };
}

/** Links are followed first: one that is within a folder may lead out of it. */
async function refuseUnlistable(folder: string, listable: readonly string[]): Promise<void> {
  const real = (path: string) => realpath(path).catch(() => path);
  const place = await real(folder);
  for (const each of listable) {
    const root = await real(each);
    if (place === root || isWithin(place, root)) return;
  }
  throw new PawlError(
    "INPUT_INVALID",
    `Sensors on this worker may not list ${folder}: it is outside of the project. Name it in ` +
      "SENSOR_FOLDERS where the worker runs, or watch it in the project's code.",
    { details: { folder } },
  );
}

/** What may be files, below the folder. */
async function* entriesBelow(
  folder: string,
  below: string,
  recursive: boolean,
  signal: AbortSignal,
): AsyncGenerator<Entry> {
  signal.throwIfAborted();
  for (const entry of await entriesOf(folder, below)) {
    const path = `${below}${entry.name}`;
    const isLink = entry.isSymbolicLink();
    // Folders behind links are not entered: links can lead out, and in circles.
    if (entry.isDirectory()) {
      if (recursive && !entry.name.startsWith(".")) {
        yield* entriesBelow(folder, `${path}/`, recursive, signal);
      }
    } else if (isLink || entry.isFile()) {
      yield { path, isLink };
    }
  }
}

async function entriesOf(folder: string, below: string): Promise<Dirent[]> {
  try {
    return await readdir(resolve(folder, below), { withFileTypes: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A folder below may go while its parent is read; the watched one itself must be there.
    if (code === "ENOENT" && below !== "") return [];
    const place = resolve(folder, below);
    const fault =
      code === "ENOENT"
        ? `There is no folder ${place} on this worker's machine; make it, or correct the watch.`
        : code === "ENOTDIR"
          ? `${place} is no folder; name the folder that holds the files.`
          : `The folder ${place} cannot be read (${code}); see to its permissions.`;
    throw new PawlError("INPUT_INVALID", fault, { cause: error });
  }
}

/** What is known of a regular file within the folder; null when it is none, or gone. */
async function statsOf(folder: string, { path, isLink }: Entry): Promise<BigIntStats | null> {
  const whole = resolve(folder, path);
  try {
    if (isLink && !isWithin(await realpath(whole), await realpath(folder))) return null;
    const stats = await stat(whole, { bigint: true });
    return stats.isFile() ? stats : null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ELOOP" || code === "ENOTDIR") return null;
    // Whoever may put a link here could otherwise keep every other file from being found.
    if (isLink && (code === "EACCES" || code === "ENAMETOOLONG")) return null;
    throw new PawlError("INPUT_INVALID", `${whole} cannot be looked at (${code}).`, {
      cause: error,
    });
  }
}

function isWithin(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`);
}

function versionOf(
  root: string,
  path: string,
  { size, mtimeNs }: BigIntStats,
  isSettled: (changedMs: number) => boolean,
): Version {
  const changedMs = Number(mtimeNs / NS_PER_MS);
  return {
    identity: [path, size, mtimeNs],
    changedAt: mtimeNs,
    name: path,
    isSettled: isSettled(changedMs),
    item: (): FileItem => ({
      ...nameParts(path),
      path: resolve(root, path),
      folder: path.slice(0, Math.max(0, path.lastIndexOf("/"))),
      size: Number(size),
      modified_at: instantOf(changedMs),
    }),
  };
}

/** One version of a file or an object. */
export type Version = {
  /** What tells it apart from other things and from its own other versions. */
  identity: readonly (string | number | bigint | null)[];
  /** When it was last changed, to put the oldest first; and its name, where that is the same. */
  changedAt: bigint;
  name: string;
  /** Whether it may be reported; one that was reported already need not be. */
  isSettled: boolean;
  item: () => Json;
};

const PREFIX = "seen1.";
/** 64 bits: among 9,000 things, one in two million million new ones is taken for another. */
const FINGERPRINT_BYTES = 8;

/** Most things that a cursor can remember: their fingerprints stay below its 100,000 characters. */
export const SEEN_MAX = 9_000;

/**
 * The versions that are not in the cursor, and the cursor with them. It is the exact set of what was
 * reported and is still there, so neither equal nor old times of change hide anything, and what
 * vanished costs nothing. The first look leaves a cursor even where there is nothing.
 */
export function takeUnseen(
  cursor: string | null,
  versions: readonly Version[],
  limit: number,
): PollResult {
  const seen = seenOf(cursor);
  const kept: string[] = [];
  const unseen: { version: Version; fingerprint: string }[] = [];
  for (const version of versions) {
    const fingerprint = fingerprintOf(version);
    if (seen.has(fingerprint)) kept.push(fingerprint);
    else if (version.isSettled) unseen.push({ version, fingerprint });
  }
  const taken = unseen.toSorted((a, b) => byAge(a.version, b.version)).slice(0, limit);
  kept.push(...taken.map(({ fingerprint }) => fingerprint));
  // A file that is being changed is forgotten together with the news of it, not before.
  const isInChange = taken.length === 0 && versions.some(({ isSettled }) => !isSettled);
  return {
    items: taken.map(({ version }) => version.item()),
    cursor: isInChange && cursor !== null ? cursor : cursorOf(kept),
  };
}

/** Refuses more things than a cursor can remember, before half of them have become runs. */
export function refuseTooManyUnseen(count: number, where: string): void {
  if (count <= SEEN_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `There are more than ${SEEN_MAX} matches in ${where}, too many to remember one by one; move ` +
      "those that are done elsewhere, or narrow the pattern.",
    { details: { matches_max: SEEN_MAX } },
  );
}

function byAge(one: Version, other: Version): number {
  if (one.changedAt !== other.changedAt) return one.changedAt < other.changedAt ? -1 : 1;
  return one.name < other.name ? -1 : Number(one.name > other.name);
}

function fingerprintOf({ identity }: Version): string {
  const text = JSON.stringify(identity.map((part) => (part === null ? null : String(part))));
  return createHash("sha256").update(text).digest().toString("latin1", 0, FINGERPRINT_BYTES);
}

function seenOf(cursor: string | null): ReadonlySet<string> {
  if (cursor === null) return new Set();
  const bytes = cursor.startsWith(PREFIX)
    ? Buffer.from(cursor.slice(PREFIX.length), "base64url")
    : null;
  if (bytes === null || bytes.length % FINGERPRINT_BYTES !== 0) {
    throw new PawlError(
      "INPUT_INVALID",
      "The sensor's cursor is not one that this watch has written; reset it to start anew.",
    );
  }
  const seen = new Set<string>();
  for (let at = 0; at < bytes.length; at += FINGERPRINT_BYTES) {
    seen.add(bytes.toString("latin1", at, at + FINGERPRINT_BYTES));
  }
  return seen;
}

/** Sorted, so that the same set is the same text. */
function cursorOf(fingerprints: readonly string[]): string {
  const sorted = [...new Set(fingerprints)].toSorted().join("");
  return PREFIX + Buffer.from(sorted, "latin1").toString("base64url");
}
