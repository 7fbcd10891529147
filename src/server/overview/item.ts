import type { Failure } from "../../work/backfill/rows.ts";
import type { SyncRow } from "../../work/sync/rows.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Reader } from "../../store/store.ts";

/** Most of one kind that an overview goes through. */
export const OF_A_KIND_MAX = 200;

/** What failed longer ago than this is history. */
export const LATELY_MS = 24 * 3_600_000;

const NAMES_SHOWN = 2;
const MESSAGE_LENGTH_MAX = 300;

/** Names in a row, the first ones in full. */
export function namesText(names: readonly string[]): string {
  const left = names.length - NAMES_SHOWN;
  const shown = names.slice(0, NAMES_SHOWN).join(", ");
  return left > 0 ? `${shown} and ${left} more` : shown;
}

/** A number of things, in words. */
export function countedText(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** The end of a sentence that gives its cause. */
export function because(failure: Failure | null): string {
  if (failure === null || failure.message === "") return ".";
  const { message } = failure;
  const text =
    message.length > MESSAGE_LENGTH_MAX ? `${message.slice(0, MESSAGE_LENGTH_MAX)}…` : message;
  return /[.!?…]$/.test(text) ? `: ${text}` : `: ${text}.`;
}

/** A sync as people name it. */
export function syncName({ name, target_key }: Pick<SyncRow, "name" | "target_key">): string {
  return `${name}@${target_key}`;
}

/** When a row was last changed: rows that stand still have been so since. */
export async function changedAt(
  reader: Reader,
  { row_version }: { row_version: number },
): Promise<Instant | null> {
  const filter = { after: row_version - 1, through: row_version, limit: 1 };
  const [event] = await reader.events(filter);
  return event?.occurred_at ?? null;
}
