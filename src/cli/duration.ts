import { PawlError } from "../core/errors.ts";
import { epochMsOf, type Instant } from "../core/instant.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: SECOND_MS,
  m: MINUTE_MS,
  h: HOUR_MS,
  d: DAY_MS,
};

/** Milliseconds of a duration such as `50s`, `1h30m` or `500ms`. Throws INPUT_INVALID. */
export function parseDurationMs(text: string, name: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  const isWhole = parts.map(([part]) => part).join("") === text && text !== "";
  const total = parts.reduce((sum, [, count, unit]) => {
    return sum + Number(count) * (UNIT_MS[unit ?? ""] ?? 0);
  }, 0);
  if (isWhole && Number.isSafeInteger(Math.round(total))) return Math.round(total);
  throw new PawlError(
    "INPUT_INVALID",
    `${name}: expected a duration such as 50s, 15m or 1h30m, got ${JSON.stringify(text)}.`,
    { details: { option: name, got: text } },
  );
}

/** A length of time for people, with at most two units: `4.2s`, `3m 05s`, `2h 10m`, `5d 3h`. */
export function formatDuration(ms: number): string {
  if (ms < SECOND_MS) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < 9_950) return `${(ms / SECOND_MS).toFixed(1)}s`;
  if (ms < 59_500) return `${Math.round(ms / SECOND_MS)}s`;
  if (ms < HOUR_MS - 500) return twoUnits(Math.round(ms / SECOND_MS), 60, "m", "s");
  if (ms < DAY_MS - MINUTE_MS / 2) return twoUnits(Math.round(ms / MINUTE_MS), 60, "h", "m");
  return twoUnits(Math.round(ms / HOUR_MS), 24, "d", "h");
}

/** How long ago an instant is, in its largest unit: `now`, `12s ago`, `3h ago`; `in 5m` ahead. */
export function relativeTime(instant: Instant | null, now: number): string {
  if (instant === null) return "-";
  const ms = now - epochMsOf(instant);
  const length = Math.abs(ms);
  if (length < SECOND_MS) return "now";
  const text = oneUnit(length);
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

function twoUnits(small: number, ratio: number, large: string, rest: string): string {
  return `${Math.floor(small / ratio)}${large} ${String(small % ratio).padStart(2, "0")}${rest}`;
}

function oneUnit(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.floor(ms / SECOND_MS)}s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)}m`;
  if (ms < DAY_MS) return `${Math.floor(ms / HOUR_MS)}h`;
  return `${Math.floor(ms / DAY_MS)}d`;
}
