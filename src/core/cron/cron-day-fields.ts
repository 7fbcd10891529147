import {
  type CronField,
  cronValueOf,
  type FieldRange,
  notUnderstood,
  parseCronField,
} from "./cron-field.ts";

/** Which days the day, month and weekday fields of a cron expression name together. */
export type CronDayFields = {
  /** The three fields as text: the same text names the same days. */
  readonly text: string;
  readonly days: CronField;
  /** Whether the last day of each month is named, whatever its number. */
  readonly lastDay: boolean;
  readonly months: CronField;
  readonly weekdays: CronField;
  /** Weekdays counted within the month: the nth, or the last one when `nth` is 0. */
  readonly countedWeekdays: readonly { weekday: number; nth: number }[];
};

const MONTHS: FieldRange = {
  low: 1,
  high: 12,
  names: "jan feb mar apr may jun jul aug sep oct nov dec".split(" "),
};
const DAYS: FieldRange = { low: 1, high: 31, names: [] };
const WEEKDAYS: FieldRange = { low: 0, high: 7, names: "sun mon tue wed thu fri sat".split(" ") };

const NOTHING: CronField = { values: [], restricted: true };

/** The three fields in lower case, or what is wrong with one of them, after "has". */
export function parseDayFields(
  dayText: string,
  monthText: string,
  weekdayText: string,
): CronDayFields | string {
  const dayParts = partsOf(dayText);
  const plainDays = dayParts.filter((part) => part !== "l");
  const days = plain(plainDays, DAYS);
  if (typeof days === "string") return `a day that ${days}`;
  const months = parseCronField(monthText, MONTHS);
  if (typeof months === "string") return `a month that ${months}`;

  const weekdayParts = partsOf(weekdayText);
  const isCounted = (part: string): boolean => /#|.l$/.test(part);
  const countedWeekdays: { weekday: number; nth: number }[] = [];
  for (const part of weekdayParts.filter(isCounted)) {
    const counted = countedWeekday(part);
    if (typeof counted === "string") return `a weekday that ${counted}`;
    countedWeekdays.push(counted);
  }
  const weekdays = plain(
    weekdayParts.filter((part) => !isCounted(part)),
    WEEKDAYS,
  );
  if (typeof weekdays === "string") return `a weekday that ${weekdays}`;
  return {
    text: `${dayText} ${monthText} ${weekdayText}`,
    days,
    lastDay: plainDays.length < dayParts.length,
    months,
    weekdays,
    countedWeekdays,
  };
}

/** A lone `?` is what some crons write for a day field that is left open. */
function partsOf(text: string): string[] {
  return text === "?" ? ["*"] : text.split(",");
}

function plain(parts: readonly string[], range: FieldRange): CronField | string {
  return parts.length === 0 ? NOTHING : parseCronField(parts.join(","), range);
}

/** `fri#2` or `5#2` for the second Friday of the month, `fril` or `5l` for the last one. */
function countedWeekday(part: string): { weekday: number; nth: number } | string {
  const found = /^([a-z]{3}|\d)(?:#([1-5])|l)$/.exec(part);
  if (found === null) return notUnderstood(part);
  const [, weekdayText = "", nthText] = found;
  const weekday = cronValueOf(weekdayText, WEEKDAYS);
  if (!(weekday <= 7)) return notUnderstood(part);
  return { weekday: weekday % 7, nth: nthText === undefined ? 0 : Number(nthText) };
}
