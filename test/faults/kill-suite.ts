import { beforeAll, describe, expect, test } from "vitest";
import { type KillReport, runKillRounds, summaryOf } from "./kill-rounds.ts";

/** Kills processes on one kind of store, and holds what is left to the promises. */
export function killSuite(
  name: string,
  options: { kills: number; timeoutMs: number; databaseUrl?: () => Promise<string> },
): void {
  describe(`${name}, killed, frozen or with its clock set ${options.kills} times under load`, () => {
    let report: KillReport;

    beforeAll(async () => {
      const { FAULTS_SEED: given } = process.env;
      const seed = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
      const lines: string[] = [];
      const databaseUrl = await options.databaseUrl?.();
      try {
        report = await runKillRounds({
          seed,
          isEnough: (kills) => kills >= options.kills,
          say: (line) => lines.push(line),
          ...(databaseUrl === undefined ? {} : { databaseUrl }),
        });
        console.log(summaryOf(report));
      } finally {
        console.log(lines.join("\n"));
      }
    }, options.timeoutMs);

    const broken = (...promises: string[]) =>
      report.violations.list.filter(({ promise }) => promises.includes(promise));

    test("I3: loses nothing that was acknowledged", () => {
      expect(broken("I2", "I3", "I4", "I8")).toEqual([]);
      expect(report.traffic.acknowledged.length).toBeGreaterThan(10);
    });

    test("I60: gives a repeated request the true outcome, and its effect once", () => {
      expect(broken("I5", "I60")).toEqual([]);
      expect(report.traffic.answersLost).toBeGreaterThan(0);
    });

    test("I28, I29: covers each selection with chunks that are planned and run once", () => {
      expect(broken("I28", "I29")).toEqual([]);
      const states = [...report.audit.backfills.values()].map(({ state }) => state);
      expect(states).toContain("SUCCEEDED");
    });

    test("I30: never runs more chunks at once than the limit", () => {
      expect(broken("I30")).toEqual([]);
    });

    test("I31: plans no chunk between an acknowledged pause and the resume", () => {
      expect(broken("I31")).toEqual([]);
      expect(report.traffic.hasPaused).toBe(true);
    });

    test("I18: lets time go back for no event, wherever the clock is set", () => {
      expect(broken("I18")).toEqual([]);
    });

    test("I33: keeps counters that add up, now and at any position", () => {
      expect(broken("I33")).toEqual([]);
    });

    test("I34, I35, I36, I39: records one success of each task, by the attempt that held it", () => {
      expect(broken("I34", "I35", "I36", "I39")).toEqual([]);
    });

    test("I37: finishes all work once the kills stop", () => {
      expect(broken("I37")).toEqual([]);
    });

    test("I65: leaves no worker behind, and stops with exit code 0 when asked", () => {
      expect(broken("I65")).toEqual([]);
      expect(report.exits.filter(({ code }) => code !== 0)).toEqual([]);
    });

    test("I8, I12: verifies from the first event", () => {
      expect(report.verify).toMatchObject({ code: 0, stderr: "" });
    });

    test("finds nothing else wrong", () => {
      expect(report.violations.list).toEqual([]);
      expect(report.complaints).toEqual([]);
    });
  });
}
