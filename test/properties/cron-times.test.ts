import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CronTimes, cronTimes } from "../../src/kernel/cron/times.ts";
import { anyCron, TELLING } from "./cron-arbitraries.ts";
import { clockChanges, firingsOf, type PlainCron, walkClock } from "./cron-walker.ts";

// Goal: schedules fire when the declared rule says, in every zone, around every clock change from
// 2024 to 2030. Method: walk the clock tick by tick beside the arithmetic and compare all four
// questions at every firing and between.

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const FROM_MS = Date.UTC(2024, 0, 1);
const UNTIL_MS = Date.UTC(2031, 0, 1);

const ZONES = Intl.supportedValuesOf("timeZone");
const CHANGES = ZONES.flatMap((zone) =>
  clockChanges(zone, FROM_MS, UNTIL_MS).map((atMs) => ({ zone, atMs })),
);

/** Changes of other years that no zone has planned again. */
const ODD_CHANGES = [
  { zone: "Pacific/Apia", atMs: Date.UTC(2011, 11, 30, 10) }, // 30 December never came
  { zone: "Pacific/Kwajalein", atMs: Date.UTC(1993, 7, 21, 12) }, // nor did 21 August
  { zone: "Pacific/Kwajalein", atMs: Date.UTC(1969, 8, 30, 13) }, // a day that came twice
  { zone: "America/Sao_Paulo", atMs: Date.UTC(2018, 10, 4, 3) }, // from midnight to one
  { zone: "America/Sao_Paulo", atMs: Date.UTC(2018, 1, 18, 2) }, // from midnight back to 23:00
  { zone: "America/Caracas", atMs: Date.UTC(2007, 11, 9, 7) }, // half an hour back
  { zone: "Asia/Pyongyang", atMs: Date.UTC(2018, 4, 4, 15) }, // half an hour forward at midnight
  { zone: "Asia/Kathmandu", atMs: Date.UTC(1985, 11, 31, 18, 30) }, // a quarter forward
  { zone: "Antarctica/Casey", atMs: Date.UTC(2010, 2, 4, 15) }, // three hours back
];

function timesOf(cron: PlainCron, zone: string): CronTimes {
  const times = cronTimes(cron.text, zone);
  if (typeof times === "string") throw new Error(times);
  return times;
}

/** Compares what the walk found after `afterMs` and up to `throughMs` with all four answers. */
function compare(
  { text }: PlainCron,
  times: CronTimes,
  zone: string,
  walked: readonly number[],
  afterMs: number,
  throughMs: number,
): void {
  const expected = walked.filter((atMs) => atMs > afterMs && atMs <= throughMs);
  // There are millions of answers, so the words for one are made when it is wrong.
  const differs = (question: string, atMs: number, got: unknown, want: unknown): void => {
    const said = `"${text}" in ${zone} from ${new Date(afterMs).toISOString()}: ${question}`;
    const at = new Date(atMs).toISOString();
    expect.fail(`${said} ${at} is ${String(got)}, not ${String(want)}`);
  };
  const same = (question: string, atMs: number, got: unknown, want: unknown): void => {
    if (got !== want) differs(question, atMs, got, want);
  };
  const newest = times.newestBetween(afterMs, throughMs, expected.length + 1);
  same("the firings up to", throughMs, newest.join(), expected.join());
  const some = Math.ceil(expected.length / 2);
  same(
    "the newest firings up to",
    throughMs,
    times.newestBetween(afterMs, throughMs, some).join(),
    expected.slice(expected.length - some).join(),
  );
  same("the count up to", throughMs, times.countBetween(afterMs, throughMs), expected.length);
  for (let index = 0; index < expected.length; index++) {
    const atMs = expected[index] as number;
    same("the first from", atMs, times.nextAfter(atMs - 1), atMs);
    same("the last up to", atMs, times.lastUpTo(atMs), atMs);
    const next = expected[index + 1];
    if (next === undefined) break;
    const between = atMs + Math.floor((next - atMs) * ((index % 7) / 7));
    same("the first after", atMs, times.nextAfter(between), next);
    same("the last up to a while after", atMs, times.lastUpTo(between), atMs);
    same("the count up to", atMs, times.countBetween(afterMs, between), index + 1);
    const left = expected.length - index - 1;
    same("the count from", atMs, times.countBetween(between, throughMs), left);
  }
}

/** Asks every twenty minutes within three hours of the instant, whether it fires there or not. */
function probe(
  cron: PlainCron,
  times: CronTimes,
  zone: string,
  walked: readonly number[],
  aroundMs: number,
): void {
  const first = walked[0];
  if (first === undefined) return;
  const wrong: string[] = [];
  let past = 0;
  for (let probeMs = aroundMs - 3 * HOUR_MS; probeMs <= aroundMs + 3 * HOUR_MS; ) {
    while (past < walked.length && (walked[past] as number) <= probeMs) past += 1;
    const later = past === walked.length ? -1 : past;
    const add = (what: string) => wrong.push(`${what} ${new Date(probeMs).toISOString()}`);
    // Beyond its ends the walk knows nothing.
    if (past > 0 && times.lastUpTo(probeMs) !== walked[past - 1]) add("last up to");
    if (later !== -1 && times.nextAfter(probeMs) !== walked[later]) add("next after");
    if (past > 0 && times.countBetween(first, probeMs) !== past - 1) add("count to");
    probeMs += 20 * MINUTE_MS;
  }
  if (wrong.length > 0) expect.fail(`"${cron.text}" in ${zone}: ${wrong.join(", ")}`);
}

/** Walks further than it compares, since a time may have come before the walk began. */
function compareAround(
  zone: string,
  atMs: number,
  reachMs: number,
  crons: readonly PlainCron[],
): void {
  const fromMs = atMs - 2 * reachMs;
  const walk = walkClock(zone, fromMs, atMs + 2 * reachMs, MINUTE_MS);
  for (const cron of crons) {
    const walked = firingsOf(cron, walk).filter((firing) => firing > fromMs);
    const times = timesOf(cron, zone);
    compare(cron, times, zone, walked, atMs - reachMs, atMs + reachMs);
    probe(cron, times, zone, walked, atMs);
  }
}

describe("cron times", () => {
  test("I23: fire as walking the clock finds around every change of every zone, 2024 to 2030", () => {
    expect(ZONES.length).toBeGreaterThan(400);
    expect(CHANGES.length).toBeGreaterThan(1_000);
    for (const { zone, atMs } of CHANGES) compareAround(zone, atMs, DAY_MS, TELLING);
  });

  test("I23: fire as walking the clock finds on days without a change, in every zone", () => {
    const days = fc.sample(fc.integer({ min: 2, max: 2_555 }), { seed: 23, numRuns: ZONES.length });
    ZONES.forEach((zone, index) => {
      compareAround(zone, FROM_MS + (days[index] ?? 0) * DAY_MS, DAY_MS, TELLING);
    });
  });

  test("I23: fire as walking the clock finds where a zone once skipped or repeated a day", () => {
    for (const { zone, atMs } of ODD_CHANGES) {
      expect(clockChanges(zone, atMs - DAY_MS, atMs + DAY_MS), zone).toEqual([atMs]);
      compareAround(zone, atMs, 4 * DAY_MS, TELLING);
    }
  });

  test("I23: fire as walking the clock finds, whatever the expression", () => {
    const change = fc.constantFrom(...CHANGES, ...ODD_CHANGES);
    fc.assert(
      fc.property(change, fc.array(anyCron, { minLength: 3, maxLength: 3 }), (around, crons) => {
        compareAround(around.zone, around.atMs, 2 * DAY_MS, crons);
      }),
      { numRuns: 500 },
    );
  });

  test("I23: fire as walking every second finds around a change of each zone that has one", () => {
    const onDay = (): boolean => true;
    const all = (end: number): number[] => Array.from({ length: end }, (_, value) => value);
    const crons: PlainCron[] = [
      {
        text: "*/20 30,59 2 * * *",
        seconds: new Set([0, 20, 40]),
        minutes: new Set([30, 59]),
        hours: new Set([2]),
        hoursFixed: true,
        onDay,
      },
      {
        text: "13-59/31 * * * * *",
        seconds: new Set([13, 44]),
        minutes: new Set(all(60)),
        hours: new Set(all(24)),
        hoursFixed: false,
        onDay,
      },
      {
        text: "* 0,29 0-3 * * *",
        seconds: new Set(all(60)),
        minutes: new Set([0, 29]),
        hours: new Set([0, 1, 2, 3]),
        hoursFixed: true,
        onDay,
      },
    ];
    // Until 1972 the clock of Monrovia was 44 minutes and 30 seconds behind.
    const odd: [string, number] = ["Africa/Monrovia", Date.UTC(1972, 0, 7, 0, 44, 30)];
    const first = new Map(CHANGES.toReversed().map((change) => [change.zone, change.atMs]));
    for (const [zone, atMs] of [...first, odd]) {
      const walk = walkClock(zone, atMs - 4 * HOUR_MS, atMs + 4 * HOUR_MS, 1_000);
      for (const cron of crons) {
        const walked = firingsOf(cron, walk);
        const times = timesOf(cron, zone);
        compare(cron, times, zone, walked, atMs - 2 * HOUR_MS, atMs + 2 * HOUR_MS);
      }
    }
  });

  test("I23: count over seven years what walking seven years finds", () => {
    for (const zone of ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo"]) {
      const walk = walkClock(zone, FROM_MS - DAY_MS, UNTIL_MS, MINUTE_MS);
      for (const cron of TELLING) {
        const walked = firingsOf(cron, walk).filter((atMs) => atMs >= FROM_MS);
        const times = timesOf(cron, zone);
        expect(times.countBetween(FROM_MS - 1, UNTIL_MS - 1)).toBe(walked.length);
        expect(times.newestBetween(FROM_MS - 1, UNTIL_MS - 1, 100)).toEqual(walked.slice(-100));
      }
    }
  });
});
