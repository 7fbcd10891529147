import { beforeAll, describe, expect, test } from "vitest";
import { type AutomationReport, runAutomationRounds } from "./automation-rounds.ts";

/** Kills processes on one kind of store while everything acts by itself. */
export function automationSuite(
  name: string,
  options: { kills: number; databaseUrl?: () => Promise<string> },
): void {
  describe(`Automation on ${name}, killed ${options.kills} times`, () => {
    let report: AutomationReport;

    beforeAll(async () => {
      const { FAULTS_SEED: given } = process.env;
      const seed = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
      const databaseUrl = await options.databaseUrl?.();
      report = await runAutomationRounds({
        seed,
        kills: options.kills,
        ...(databaseUrl === undefined ? {} : { databaseUrl }),
      });
      const { seconds, events, traffic, audit } = report;
      console.log(
        `seed ${seed}: ${events.length} events, ${traffic.kept.size} messages, ` +
          `${traffic.files.length} files, ${JSON.stringify(audit.ticks)}, ` +
          `${traffic.answersLost} lost answers in ${seconds.toFixed(0)} s`,
      );
    });

    const broken = (...promises: string[]) =>
      report.violations.list.filter(({ promise }) => promises.includes(promise));

    test("I20, I21: decides every second of every schedule exactly once", () => {
      expect(broken("I20", "I21", "I22", "I24")).toEqual([]);
      expect(report.audit.ticks.triggered).toBeGreaterThan(5);
    });

    test("I25: evaluates every acknowledged message once, with one run", () => {
      expect(broken("I25")).toEqual([]);
      expect(report.traffic.kept.size).toBeGreaterThan(5);
    });

    test("I26: makes one run of every file", () => {
      expect(broken("I26")).toEqual([]);
      expect(report.traffic.files.length).toBeGreaterThan(5);
    });

    test("I70: keeps ticks and their runs together", () => {
      expect(broken("I70")).toEqual([]);
    });

    test("I37: finishes all work once the kills stop", () => {
      expect(broken("I37")).toEqual([]);
    });

    test("I8, I12: verifies from the first event, and nothing else is wrong", () => {
      expect(report.verify).toMatchObject({ code: 0, stderr: "" });
      expect(report.violations.list).toEqual([]);
    });
  });
}
