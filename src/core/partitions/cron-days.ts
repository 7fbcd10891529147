import { civilDayOf, DAYS_IN_CYCLE, dayNumberOf, daysInMonth, weekdayOf } from "./civil-day.ts";

/** Which days and which minutes of a day a cron expression names, counted without walking. */
export interface CronDays {
  /** The minutes of a day, ascending; the same on every day that matches. */
  readonly minutesOfDay: readonly number[];
  /** How many matching days lie before the day; days before 1970 count as negative. */
  matchesBefore(dayNumber: number): number;
  /** The matching day with this many matching days before it. */
  matchAt(index: number): number;
  matches(dayNumber: number): boolean;
}

type Field = { values: ReadonlySet<number>; restricted: boolean };

const NICKNAMES: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

const MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ");
const DAY_NAMES = "sun mon tue wed thu fri sat".split(" ");

const MONTHS_IN_CYCLE = 4_800;

const parsed = new Map<string, CronDays>();
const PARSED_MAX = 1_000;

/** The days of a five-field cron expression, or what is wrong with it as the end of a sentence. */
export function cronDays(expression: string): CronDays | string {
  const known = parsed.get(expression);
  if (known !== undefined) return known;
  const made = parseCron(expression);
  if (typeof made === "string") return made;
  if (parsed.size >= PARSED_MAX) parsed.clear();
  parsed.set(expression, made);
  return made;
}

function parseCron(expression: string): CronDays | string {
  const trimmed = expression.trim().toLowerCase();
  const texts = (NICKNAMES[trimmed] ?? trimmed).split(/\s+/);
  const [minuteText, hourText, dayText, monthText, weekdayText] = texts;
  if (
    texts.length !== 5 ||
    minuteText === undefined ||
    hourText === undefined ||
    dayText === undefined ||
    monthText === undefined ||
    weekdayText === undefined
  ) {
    return `"${expression}" must have five fields: minute, hour, day, month and weekday`;
  }
  const minutes = parseField(minuteText, 0, 59, []);
  if (typeof minutes === "string") return `"${expression}" has a minute that ${minutes}`;
  const hours = parseField(hourText, 0, 23, []);
  if (typeof hours === "string") return `"${expression}" has an hour that ${hours}`;
  const days = parseField(dayText, 1, 31, []);
  if (typeof days === "string") return `"${expression}" has a day that ${days}`;
  const months = parseField(monthText, 1, 12, MONTH_NAMES);
  if (typeof months === "string") return `"${expression}" has a month that ${months}`;
  const weekdays = parseField(weekdayText, 0, 7, DAY_NAMES);
  if (typeof weekdays === "string") return `"${expression}" has a weekday that ${weekdays}`;

  const minutesOfDay = [...hours.values]
    .toSorted((one, other) => one - other)
    .flatMap((hour) =>
      [...minutes.values].toSorted((one, other) => one - other).map((minute) => hour * 60 + minute),
    );
  return countDays(expression, minutesOfDay, days, months, weekdays);
}

/** The values of one field, or what is wrong with it. */
function parseField(
  text: string,
  low: number,
  high: number,
  names: readonly string[],
): Field | string {
  const values = new Set<number>();
  for (const part of text.split(",")) {
    const found = /^(\*|[a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?(?:\/(\d{1,2}))?$/.exec(part);
    if (found === null) return `is not understood: ${JSON.stringify(part)}`;
    const [, fromText = "", toText, stepText] = found;
    const step = stepText === undefined ? 1 : Number(stepText);
    const from = fromText === "*" ? low : valueOf(fromText, low, names);
    // A lone number with a step runs to the end of the field, as cron has always had it.
    const open = fromText === "*" || (toText === undefined && stepText !== undefined);
    const to = toText !== undefined ? valueOf(toText, low, names) : open ? high : from;
    if (step < 1 || (fromText === "*" && toText !== undefined)) {
      return `is not understood: ${JSON.stringify(part)}`;
    }
    if (!(from >= low && to <= high && from <= to)) {
      return `is not within ${low} to ${high}, ascending: ${JSON.stringify(part)}`;
    }
    for (let value = from; value <= to; value += step) values.add(value);
  }
  return { values, restricted: !text.includes("*") };
}

function valueOf(text: string, low: number, names: readonly string[]): number {
  const named = names.indexOf(text);
  return named === -1 ? Number(text) : named + low;
}

/** Bit `day - 1` of the answer is set for each matching day of the month. */
function maskOfMonth(month: number, days: Field, months: Field, weekdays: Field): number {
  const year = Math.floor(month / 12);
  const monthOfYear = (month % 12) + 1;
  if (!months.values.has(monthOfYear)) return 0;
  const length = daysInMonth(year, monthOfYear);
  const firstWeekday = weekdayOf(dayNumberOf(year, monthOfYear, 1));
  let mask = 0;
  for (let day = 1; day <= length; day++) {
    const weekday = (firstWeekday + day - 1) % 7;
    const onDay = days.values.has(day);
    const onWeekday = weekdays.values.has(weekday) || (weekday === 0 && weekdays.values.has(7));
    // The classic rule: a day matches either field when both are restricted, else both.
    const either = days.restricted && weekdays.restricted;
    if (either ? onDay || onWeekday : onDay && onWeekday) mask |= 1 << (day - 1);
  }
  return mask;
}

/** Counts by the 400-year cycle of the calendar: whole cycles, then whole months, then days. */
function countDays(
  expression: string,
  minutesOfDay: readonly number[],
  days: Field,
  months: Field,
  weekdays: Field,
): CronDays | string {
  const masks = new Int32Array(MONTHS_IN_CYCLE);
  const before = new Int32Array(MONTHS_IN_CYCLE + 1);
  for (let month = 0; month < MONTHS_IN_CYCLE; month++) {
    masks[month] = maskOfMonth(month, days, months, weekdays);
    before[month + 1] = (before[month] ?? 0) + bitCount(masks[month] ?? 0);
  }
  const perCycle = before[MONTHS_IN_CYCLE] ?? 0;
  if (perCycle === 0) return `"${expression}" names no day of any year`;

  const cycleStart = dayNumberOf(0, 1, 1);
  return {
    minutesOfDay,
    matchesBefore(dayNumber) {
      const cycle = Math.floor((dayNumber - cycleStart) / DAYS_IN_CYCLE);
      const { year, month, day } = civilDayOf(dayNumber - cycle * DAYS_IN_CYCLE);
      const monthOfCycle = year * 12 + month - 1;
      const earlier = (masks[monthOfCycle] ?? 0) & ((1 << (day - 1)) - 1);
      return cycle * perCycle + (before[monthOfCycle] ?? 0) + bitCount(earlier);
    },
    matchAt(index) {
      const cycle = Math.floor(index / perCycle);
      const inCycle = index - cycle * perCycle;
      const month = monthHolding(before, inCycle);
      const day = nthBit(masks[month] ?? 0, inCycle - (before[month] ?? 0)) + 1;
      const inFirst = dayNumberOf(Math.floor(month / 12), (month % 12) + 1, day);
      return inFirst + cycle * DAYS_IN_CYCLE;
    },
    matches(dayNumber) {
      const cycle = Math.floor((dayNumber - cycleStart) / DAYS_IN_CYCLE);
      const { year, month, day } = civilDayOf(dayNumber - cycle * DAYS_IN_CYCLE);
      return (((masks[year * 12 + month - 1] ?? 0) >> (day - 1)) & 1) === 1;
    },
  };
}

/** The last month with at most `index` matching days before it. */
function monthHolding(before: Int32Array, index: number): number {
  let low = 0;
  let high = MONTHS_IN_CYCLE - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((before[middle] ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

function bitCount(mask: number): number {
  let rest = mask;
  let count = 0;
  for (; rest !== 0; count++) rest &= rest - 1;
  return count;
}

function nthBit(mask: number, index: number): number {
  let rest = mask;
  for (let skipped = 0; skipped < index; skipped++) rest &= rest - 1;
  return 31 - Math.clz32(rest & -rest);
}
