import fc from "fast-check";
import type { PlainCron, PlainDay } from "./cron-walker.ts";

const ZERO: ReadonlySet<number> = new Set([0]);
const all = (from: number, to: number, step = 1): number[] =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step);

function plain(
  text: string,
  minutes: readonly number[],
  hours: readonly number[],
  hoursFixed: boolean,
  onDay: (date: PlainDay) => boolean = () => true,
): PlainCron {
  const times = { minutes: new Set(minutes), hours: new Set(hours) };
  return { text, seconds: ZERO, ...times, hoursFixed, onDay };
}

const EVERY_HOUR = all(0, 23);

/** Expressions that a wrong rule gets wrong, each with its meaning written out by hand. */
export const TELLING: readonly PlainCron[] = [
  plain("30 2 * * *", [30], [2], true),
  plain("0 0 * * *", [0], [0], true),
  plain("@daily", [0], [0], true),
  plain("@hourly", [0], EVERY_HOUR, false),
  plain("*/15 * * * *", [0, 15, 30, 45], EVERY_HOUR, false),
  plain("0 */2 * * *", [0], all(0, 22, 2), false),
  plain("20 1-23/2 * * ?", [20], all(1, 23, 2), false),
  plain("0,30,59 1,2,3 * * *", [0, 30, 59], [1, 2, 3], true),
  plain("*/30 0-3 * * *", [0, 30], [0, 1, 2, 3], true),
  plain("5 0-23 * * *", [5], EVERY_HOUR, true),
  plain("45 23 * * sat,7", [45], [23], true, ({ weekday }) => weekday === 6 || weekday === 0),
  plain("10 0,1 1,15 * sun", [10], [0, 1], true, ({ day, weekday }) => {
    return day === 1 || day === 15 || weekday === 0;
  }),
  plain("0 * */2 * sun", [0], EVERY_HOUR, false, ({ day, weekday }) => {
    return day % 2 === 1 && weekday === 0;
  }),
  plain("30 2 29-31 mar,oct *", [30], [2], true, ({ day, month }) => {
    return day >= 29 && (month === 3 || month === 10);
  }),
  plain("15 0,2 L * *", [15], [0, 2], true, ({ day, length }) => day === length),
  plain("30 2 * 3-11 0L", [30], [2], true, ({ day, month, weekday, length }) => {
    return month >= 3 && month <= 11 && weekday === 0 && day > length - 7;
  }),
  plain("30 1-2 ? * sun#1,7#2", [30], [1, 2], true, ({ day, weekday }) => {
    return weekday === 0 && day <= 14;
  }),
];

type PlainField = { text: string; values: readonly number[]; star: boolean; step: boolean };

/**
 * One part of a field: `*`, `*` or a range with a step, a range, or a number. What is written out is
 * at most `often`, so that a narrow part of a field can be made to come up often.
 */
function part(low: number, high: number, often = high): fc.Arbitrary<PlainField> {
  const value = fc.integer({ min: low, max: often });
  const step = fc.integer({ min: 1, max: Math.min(20, high) });
  const range = fc
    .tuple(value, value)
    .map(([one, other]) => [Math.min(one, other), Math.max(one, other)] as const);
  return fc.oneof(
    fc.constant({ text: "*", values: all(low, high), star: true, step: false }),
    step.map((by) => ({ text: `*/${by}`, values: all(low, high, by), star: true, step: true })),
    fc.tuple(range, step).map(([[from, to], by]) => {
      return { text: `${from}-${to}/${by}`, values: all(from, to, by), star: false, step: true };
    }),
    fc.tuple(value, step).map(([from, by]) => {
      return { text: `${from}/${by}`, values: all(from, high, by), star: false, step: true };
    }),
    range.map(([from, to]) => {
      return { text: `${from}-${to}`, values: all(from, to), star: false, step: false };
    }),
    value.map((only) => ({ text: `${only}`, values: [only], star: false, step: false })),
  );
}

function list(parts: fc.Arbitrary<PlainField>): fc.Arbitrary<PlainField> {
  return fc.array(parts, { minLength: 1, maxLength: 3 }).map((some) => ({
    text: some.map(({ text }) => text).join(","),
    values: some.flatMap(({ values }) => values),
    star: some.some(({ star }) => star),
    step: some.some(({ step }) => step),
  }));
}

const named = (low: number, high: number): fc.Arbitrary<PlainField> =>
  list(part(low, high).filter(({ star, step }) => !star && !step));
const anything = (low: number, high: number): fc.Arbitrary<PlainField> =>
  fc.constant({ text: "*", values: all(low, high), star: true, step: false });

/** Every date that some year has. */
const DATES: readonly PlainDay[] = all(1, 12).flatMap((month) => {
  const length = new Date(Date.UTC(2024, month, 0)).getUTCDate();
  return all(1, length).flatMap((day) =>
    all(0, 6).map((weekday) => ({ day, month, weekday, length })),
  );
});

/** Any expression of five fields; hours soon after midnight and open months come up often. */
export const anyCron: fc.Arbitrary<PlainCron> = fc
  .record({
    minute: list(part(0, 59)),
    hour: fc.oneof(list(part(0, 23, 3)), list(part(0, 23)), named(0, 3), named(0, 23)),
    day: fc.oneof(anything(1, 31), list(part(1, 31))),
    month: fc.oneof(anything(1, 12), list(part(1, 12))),
    weekday: fc.oneof(anything(0, 7), list(part(0, 7))),
  })
  .map(({ minute, hour, day, month, weekday }) => {
    const text = [minute, hour, day, month, weekday].map((field) => field.text).join(" ");
    const weekdays = new Set(weekday.values.map((value) => value % 7));
    const either = !day.star && !weekday.star;
    return plain(text, minute.values, hour.values, !hour.star && !hour.step, (date) => {
      const onDay = day.values.includes(date.day);
      const onWeekday = weekdays.has(date.weekday);
      const onBoth = either ? onDay || onWeekday : onDay && onWeekday;
      return onBoth && month.values.includes(date.month);
    });
  })
  .filter(({ onDay }) => DATES.some(onDay));
