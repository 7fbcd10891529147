import { type CronField, type FieldRange, parseCronField } from "./cron-field.ts";
import { type CronDayFields, parseDayFields } from "./cron-day-fields.ts";

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
