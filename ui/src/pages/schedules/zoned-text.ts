const MINUTE_MS = 60_000;

/** How far clocks are set back, in all zones there are. */
const SET_BACK_MS = [60 * MINUTE_MS, 30 * MINUTE_MS];

/** The time zone of whoever looks. */
export function viewerZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Clocks of zones: making one takes long, and lists have thousands of times. */
const clocks = new Map<string, Intl.DateTimeFormat | null>();

/** The clock of a zone; null for a zone that this browser has not heard of. */
function clockOf(zone: string): Intl.DateTimeFormat | null {
  let clock = clocks.get(zone);
  if (clock === undefined) {
    clock = newClock(zone);
    clocks.set(zone, clock);
  }
  return clock;
}

function newClock(timeZone: string): Intl.DateTimeFormat | null {
  const two = "2-digit";
  const day = { year: "numeric", month: two, day: two } as const;
  const time = { hour: two, minute: two, second: two, hourCycle: "h23" } as const;
  try {
    return new Intl.DateTimeFormat("en-GB", {
      ...day,
      ...time,
      timeZone,
      timeZoneName: "longOffset",
    });
  } catch {
    return null;
  }
}

/**
 * What the clocks of a zone show, to the minute unless there are seconds: `2026-03-29 03:00`. A time
 * that they show twice, as they are set back, has the offset that tells which one it is.
 */
export function zonedText(at: string, zone: string): string {
  const ms = Date.parse(at);
  const clock = clockOf(zone);
  if (clock === null) return `${at.slice(0, 19).replace("T", " ")} UTC, not`;
  const { text, offset } = reading(clock, ms);
  const isShownTwice = SET_BACK_MS.some((backMs) =>
    [ms - backMs, ms + backMs].some((other) => reading(clock, other).text === text),
  );
  return isShownTwice ? `${text} (${offset})` : text;
}

function reading(clock: Intl.DateTimeFormat, ms: number): { text: string; offset: string } {
  const parts = clock.formatToParts(ms);
  const part = (type: string): string => parts.find((each) => each.type === type)?.value ?? "";
  const seconds = part("second") === "00" ? "" : `:${part("second")}`;
  const day = `${part("year")}-${part("month")}-${part("day")}`;
  return {
    text: `${day} ${part("hour")}:${part("minute")}${seconds}`,
    offset: part("timeZoneName").replace("GMT", "UTC"),
  };
}
