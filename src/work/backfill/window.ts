import { PawlError } from "../../kernel/errors.ts";
import { type CronTimes, cronTimes } from "../../kernel/cron/times.ts";
import { epochMsOf, type Instant, instantOf } from "../../kernel/instant.ts";
import type { Context } from "../decision.ts";
import type { EventData, NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { BackfillRow } from "./rows.ts";

/**
 * When a backfill may plan chunks: every day between two times of the clock in a time zone, written
 * as `22:00-06:00 Europe/Berlin`. The end does not belong to it. Clocks that are changed meanwhile
 * make it longer or shorter; a time that the clock jumps over comes at the jump.
 */
type DailyWindow = {
  readonly opens: CronTimes;
  readonly closes: CronTimes;
  readonly isOvernight: boolean;
};

const WINDOW =
  /^((?:[01]?\d|2[0-3]):[0-5]\d) ?[-–] ?((?:[01]?\d|2[0-3]):[0-5]\d|24:00)(?: +(\S{1,100}))?$/;

/** A window as it is kept: `22:00-06:00 Europe/Berlin`. Throws INPUT_INVALID. */
export function windowText(text: string): string {
  const [, from, to = "", zone = "UTC"] = WINDOW.exec(text.trim()) ?? [];
  if (from === undefined) throw notAWindow(text, "");
  const start = from.padStart(5, "0");
  const end = to.padStart(5, "0").replace("24:00", "00:00");
  if (start === end) throw notAWindow(text, " It must not begin and end at the same time.");
  const kept = `${start}-${end} ${zone}`;
  const read = readWindow(kept);
  if (typeof read === "string") throw notAWindow(text, ` ${read}.`);
  return kept;
}

function notAWindow(text: string, why: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `window: expected two times of the day and a time zone such as "22:00-06:00 Europe/Berlin", ` +
      `got ${JSON.stringify(text)}.${why}`,
    { details: { field: "window", got: text } },
  );
}

/** The times of a window that is written as it is kept, or what is wrong with it. */
function readWindow(kept: string): DailyWindow | string {
  const [times = "", zone = ""] = kept.split(" ");
  const [opens, closes] = times.split("-").map((time) => {
    const [hour, minute] = time.split(":").map(Number);
    return cronTimes(`${minute} ${hour} * * *`, zone);
  });
  if (typeof opens === "string") return opens;
  if (typeof closes === "string") return closes;
  if (opens === undefined || closes === undefined) return "is no window";
  const [start = "", end = ""] = times.split("-");
  return { opens, closes, isOvernight: start > end };
}

/** Whether chunks may be planned, and when that changes; null when it never does. */
export type Opening = { is_open: boolean; changes_at: Instant | null };

/** What a backfill's window and start come to at a time. */
export function openingAt(
  { start_at, window }: Pick<BackfillRow, "start_at" | "window">,
  now: Instant,
): Opening {
  const isEarly = start_at !== null && now < start_at;
  const from = isEarly ? start_at : now;
  const own = window === null ? ALWAYS : windowAt(window, from);
  // Open when it starts, it is the start that it waits for.
  return isEarly ? { is_open: false, changes_at: own.is_open ? from : own.changes_at } : own;
}

const ALWAYS: Opening = { is_open: true, changes_at: null };

function windowAt(kept: string, at: Instant): Opening {
  const read = readWindow(kept);
  // A time zone that this machine does not know any more holds nothing up.
  if (typeof read === "string") return ALWAYS;
  const nowMs = epochMsOf(at);
  const openedMs = read.opens.lastUpTo(nowMs);
  const closedMs = read.closes.lastUpTo(nowMs);
  if (openedMs === null || closedMs === null) return ALWAYS;
  // Both at once, where the clock jumped over both: then it is in the window only if that goes on overnight.
  const is_open = openedMs === closedMs ? read.isOvernight : openedMs > closedMs;
  const nextMs = (is_open ? read.closes : read.opens).nextAfter(nowMs);
  return nextMs === null ? ALWAYS : { is_open, changes_at: instantOf(nextMs) };
}

/** When a window that is open now was opened; null for one that cannot be read. */
export function openedAt(window: string, now: Instant): Instant | null {
  const read = readWindow(window);
  const openedMs = typeof read === "string" ? null : read.opens.lastUpTo(epochMsOf(now));
  return openedMs === null ? null : instantOf(openedMs);
}

/** Days that are looked ahead. */
const DAYS_MAX = 4_000;

/** When so much time in a window that is open now has passed; null when that is years away. */
export function afterOpenTime(window: string, now: Instant, ms: number): Instant | null {
  const read = readWindow(window);
  if (typeof read === "string") return null;
  let atMs = epochMsOf(now);
  let leftMs = ms;
  for (let day = 0; day < DAYS_MAX; day++) {
    const closesMs = read.closes.nextAfter(atMs);
    if (closesMs === null) return null;
    if (leftMs <= closesMs - atMs) return instantOf(atMs + Math.round(leftMs));
    leftMs -= closesMs - atMs;
    // At the very instant at which it closes it may open again.
    const opensMs = read.opens.nextAfter(closesMs - 1);
    if (opensMs === null) return null;
    atMs = opensMs;
  }
  return null;
}

/** When a backfill may plan chunks by what was asked for, where that is not always. A follower does not know yet. */
export function timingOf(
  asked: { start_at?: Instant | undefined; window?: string | undefined },
  isFollower: boolean,
  { now }: Pick<Context, "now">,
): Pick<EventData<"BackfillCreated">, "timing"> {
  if (asked.start_at === undefined && asked.window === undefined) return {};
  const window = asked.window === undefined ? null : windowText(asked.window);
  const limits = { start_at: asked.start_at ?? null, window };
  // Nothing is due for one that waits for another.
  const opening = isFollower ? { is_open: false, changes_at: null } : openingAt(limits, now);
  return { timing: { ...limits, ...opening } };
}

/**
 * What to record when the time has come at which a backfill's window opens or closes; a follower looks
 * for the first time when it may start.
 */
export function windowChange(backfill: BackfillRow, now: Instant): NewEvent | null {
  const { backfill_id, created_pos, window_changes_at: due, window_open } = backfill;
  if (due === null ? window_open === 1 : now < due) return null;
  return {
    type: "BackfillWindowChanged",
    idempotency_key: IDEMPOTENCY_KEYS.backfillWindow(backfill_id, due ?? "start"),
    data: { backfill_id, backfill_pos: created_pos, ...openingAt(backfill, now) },
  };
}
