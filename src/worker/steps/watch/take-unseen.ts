import { createHash } from "node:crypto";
import type { Json } from "../../../kernel/canonical.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { PollResult } from "./open-watcher.ts";

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
