/** The values one field of a cron expression names. */
export type CronField = {
  /** Ascending, without repetition. */
  readonly values: readonly number[];
  /** Whether the field leaves something out by its form: one with a `*` never does. */
  readonly restricted: boolean;
};

/** The bounds of a field and the names its values may be written as, the lowest first. */
export type FieldRange = { low: number; high: number; names: readonly string[] };

const PART = /^(\*|[a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?(?:\/(\d{1,2}))?$/;

/** The values of a field in lower case, or what is wrong with it as the end of a sentence. */
export function parseCronField(text: string, range: FieldRange): CronField | string {
  const values = new Set<number>();
  for (const part of text.split(",")) {
    const fault = addPart(values, part, range);
    if (fault !== null) return fault;
  }
  return {
    values: [...values].toSorted((one, other) => one - other),
    restricted: !text.includes("*"),
  };
}

/** The sentence for a part that has no meaning in its field. */
export function notUnderstood(part: string): string {
  return `is not understood: ${JSON.stringify(part)}`;
}

/** The number that a name or digits stand for; not a number when they stand for nothing. */
export function cronValueOf(text: string, { low, names }: FieldRange): number {
  const named = names.indexOf(text);
  return named === -1 ? Number(text) : named + low;
}

function addPart(values: Set<number>, part: string, range: FieldRange): string | null {
  const { low, high } = range;
  const found = PART.exec(part);
  if (found === null) return notUnderstood(part);
  const [, fromText = "", toText, stepText] = found;
  const step = stepText === undefined ? 1 : Number(stepText);
  const from = fromText === "*" ? low : cronValueOf(fromText, range);
  // A lone number with a step runs to the end of the field, as cron has always had it.
  const open = fromText === "*" || (toText === undefined && stepText !== undefined);
  const to = toText !== undefined ? cronValueOf(toText, range) : open ? high : from;
  if (step < 1 || (fromText === "*" && toText !== undefined)) return notUnderstood(part);
  if (!(from >= low && to <= high && from <= to)) {
    return `is not within ${low} to ${high}, ascending: ${JSON.stringify(part)}`;
  }
  for (let value = from; value <= to; value += step) values.add(value);
  return null;
}

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

/** What a cron expression says, field by field. */
export type CronExpression = {
  /** The text as it was given. */
  readonly text: string;
  readonly seconds: CronField;
  readonly minutes: CronField;
  readonly hours: CronField;
  readonly dayFields: CronDayFields;
  /** Whether the hour field has neither a wildcard nor a step, so that it names hours of the clock. */
  readonly hoursFixed: boolean;
};

/** Whether an expression may have a field for seconds before the usual five. */
export type SecondsField = "allowed" | "refused";

const NICKNAMES: ReadonlyMap<string, string> = new Map([
  ["@yearly", "0 0 1 1 *"],
  ["@annually", "0 0 1 1 *"],
  ["@monthly", "0 0 1 * *"],
  ["@weekly", "0 0 * * 0"],
  ["@daily", "0 0 * * *"],
  ["@midnight", "0 0 * * *"],
  ["@hourly", "0 * * * *"],
]);

const SIXTY: FieldRange = { low: 0, high: 59, names: [] };
const HOURS: FieldRange = { low: 0, high: 23, names: [] };

/** Real expressions are far shorter; the bound keeps what is remembered of them small. */
const LENGTH_MAX = 200;

/** An expression of five fields, or six with seconds first, or the end of a sentence on its fault. */
export function parseCronExpression(
  text: string,
  secondsField: SecondsField,
): CronExpression | string {
  if (text.length > LENGTH_MAX) {
    return `"${text.slice(0, 40)}…" is longer than ${LENGTH_MAX} characters`;
  }
  const trimmed = text.trim().toLowerCase();
  const fields = (NICKNAMES.get(trimmed) ?? trimmed).split(/\s+/);
  if (secondsField === "allowed" && fields.length === 5) fields.unshift("0");
  if (secondsField === "refused") fields.unshift("0");
  const [secondText, minuteText, hourText, dayText, monthText, weekdayText, ...more] = fields;
  if (
    secondText === undefined ||
    minuteText === undefined ||
    hourText === undefined ||
    dayText === undefined ||
    monthText === undefined ||
    weekdayText === undefined ||
    more.length > 0
  ) {
    return faultOfShape(text, trimmed, secondsField);
  }
  const seconds = parseCronField(secondText, SIXTY);
  if (typeof seconds === "string") return `"${text}" has a second that ${seconds}`;
  const minutes = parseCronField(minuteText, SIXTY);
  if (typeof minutes === "string") return `"${text}" has a minute that ${minutes}`;
  const hours = parseCronField(hourText, HOURS);
  if (typeof hours === "string") return `"${text}" has an hour that ${hours}`;
  const dayFields = parseDayFields(dayText, monthText, weekdayText);
  if (typeof dayFields === "string") return `"${text}" has ${dayFields}`;

  return { text, seconds, minutes, hours, dayFields, hoursFixed: !/[*/]/.test(hourText) };
}

function faultOfShape(text: string, trimmed: string, secondsField: SecondsField): string {
  if (secondsField === "allowed" && trimmed.startsWith("@")) {
    return `"${text}" is none of ${[...NICKNAMES.keys()].join(", ")}`;
  }
  const five = `"${text}" must have five fields: minute, hour, day, month and weekday`;
  return secondsField === "allowed" ? `${five}; or six, with seconds first` : five;
}
