import { parseCronExpression } from "../cron/cron-expression.ts";
import { type DayTable, dayTableOf } from "../cron/day-table.ts";

/** Which days and which minutes of a day a cron expression names, counted without walking. */
export interface CronDays extends DayTable {
  /** The minutes of a day, ascending; the same on every day that matches. */
  readonly minutesOfDay: readonly number[];
}

const parsed = new Map<string, CronDays>();
const PARSED_MAX = 1_000;

/** The days of a five-field cron expression, or what is wrong with it as the end of a sentence. */
export function cronDays(expression: string): CronDays | string {
  const known = parsed.get(expression);
  if (known !== undefined) return known;
  const made = makeDays(expression);
  if (typeof made === "string") return made;
  if (parsed.size >= PARSED_MAX) parsed.clear();
  parsed.set(expression, made);
  return made;
}

function makeDays(expression: string): CronDays | string {
  const cron = parseCronExpression(expression, "refused");
  if (typeof cron === "string") return cron;
  const days = dayTableOf(cron.dayFields);
  if (days === null) return `"${expression}" names no day of any year`;
  const minutesOfDay = cron.hours.values.flatMap((hour) =>
    cron.minutes.values.map((minute) => hour * 60 + minute),
  );
  return { ...days, minutesOfDay };
}
