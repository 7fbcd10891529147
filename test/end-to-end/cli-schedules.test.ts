import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ConflictDocument, RunDocument } from "../../src/work/run/api.ts";
import type {
  ScheduleDocument,
  TickDocument,
  DefinedSchedule,
  NextTimes,
} from "../../src/work/schedule/api.ts";
import { readSource } from "../repo/source-files.ts";
import { CliProject } from "./cli-project.ts";

// Many commands have workers, and are run on a busy machine.
const CONFIG = `import { asset, daily, definePawl } from "pawl";
  const visits = asset("visits", {
    partitions: daily({ start: "2026-01-01" }),
    materialize: async () => undefined,
  });
  const report = asset("report", { materialize: async () => undefined });
  const broken = asset("broken", {
    retry: { maxAttempts: 1 },
    materialize: async () => { throw new Error("It is no good."); },
  });
  export default definePawl({ assets: [visits, report, broken] });`;

/** Ticks on the first of January, which no test waits for. */
const YEARLY = ["--cron", "0 3 1 1 *", "--timezone", "Europe/Berlin"];

const project = new CliProject();
beforeAll(() => project.write("pawl.config.ts", CONFIG));
afterAll(() => project.remove());

const schedule = (...args: string[]) => ["schedule", ...args] as const;

describe("pawl schedule", () => {
  let id = "";

  test("creates one with everything said in flags, and shows it by name and short id", async () => {
    const flags = ["--asset", "visits", "--partition", "previous", "--overlap", "buffer_one"];
    const limits = [
      "--catchup-window-minutes",
      "60",
      "--max-catchup-ticks",
      "2",
      "--jitter",
      "30s",
    ];
    const rest = [
      "--label",
      "team=web",
      "--run-config",
      '{"deep":true}',
      "--description",
      "Visits",
    ];
    const created = await project.said(
      ...schedule("create", "new-year", ...YEARLY, ...flags, ...limits, ...rest),
    );
    expect(created).toMatch(
      /^Created schedule new-year \(\w{26}\)\. Next: \d{4}-01-01 03:00:00 Eur/,
    );
    expect(created).toContain("No server is running");

    const shown = await project.json<ScheduleDocument>(...schedule("show", "new-year"));
    id = shown.schedule_id;
    expect(shown).toMatchObject({
      cron: "0 3 1 1 *",
      timezone: "Europe/Berlin",
      asset_selection: ["visits"],
      selection: { type: "tick_time", offset: -1 },
      overlap: "buffer_one",
      catchup_window_minutes: 60,
      max_catchup_ticks: 2,
      jitter_ms: 30_000,
      labels: { team: "web" },
      config: { deep: true },
      origin: "api",
      state: "ACTIVE",
    });
    const text = await project.said(...schedule("show", id.slice(-8)));
    expect(text).toMatch(/^schedule +new-year$/m);
    expect(text).toMatch(/^assets +visits: the partition before that of the tick's time$/m);
    expect(text).toMatch(/^catches up +the newest 2 of the last 1h; not after a pause$/m);
    const list = await project.said(...schedule("list", "--asset", "visits"));
    expect(list).toMatch(/^new-year +ACTIVE +0 3 1 1 \* +Europe\/Berlin +visits +in \d+d +- +- /m);
  });

  test("changes only what is said, for the version there is", async () => {
    const flags = ["--max-catchup-ticks", "5", "--catch-up-on-resume"];
    expect(await project.said(...schedule("update", "new-year", ...flags))).toMatch(
      /was changed \(version 2\)/,
    );
    const shown = await project.json<ScheduleDocument>(...schedule("show", id));
    expect(shown).toMatchObject({
      max_catchup_ticks: 5,
      catch_up_on_resume: true,
      catchup_window_minutes: 60,
      labels: { team: "web" },
      description: "Visits",
    });
    const stale = ["--priority", "1", "--expected-state-version", "1"];
    expect(await project.refused(4, ...schedule("update", id, ...stale))).toContain(
      "STATE_VERSION_MISMATCH",
    );
    expect(await project.refused(2, ...schedule("update", id))).toContain(
      "Expected what to change",
    );
  });

  test("triggers, waits, and says why a time was skipped or failed", async () => {
    const trigger = ["trigger", "new-year", "--wait", "--json"];
    const { code, stdout } = await project.pawl(["schedule", ...trigger]);
    expect(code).toBe(0);
    const { run_id, state } = JSON.parse(stdout) as { run_id: string; state: string };
    expect(state).toBe("SUCCEEDED");
    const shown = await project.said("run", "show", run_id);
    expect(shown).toMatch(
      new RegExp(`^triggered by +schedule new-year, tick ${id}:manual:\\d+$`, "m"),
    );
    expect(await project.said("run", "list")).toMatch(/ schedule new-year +(?:\w+ ago|now) /);
    const ticks = await project.said(...schedule("ticks", "new-year"));
    const key = "\\d{4}-\\d\\d-\\d\\d";
    expect(ticks).toMatch(
      new RegExp(`Z {2}triggered {2}run_\\w{8} {2}SUCCEEDED .+ triggered by hand; ${key}$`, "m"),
    );
    const page = await project.json<{ items: TickDocument[] }>(
      ...schedule("ticks", "new-year", "--manual"),
    );
    expect(page.items).toMatchObject([{ run_id, run_state: "SUCCEEDED", manual: true }]);

    await project.said(...schedule("create", "bad", ...YEARLY, "--asset", "broken", "--disabled"));
    expect(await project.refused(1, ...schedule("trigger", "bad", "--wait"))).toContain(
      "It is no good.",
    );
  });

  test("pauses and resumes, and skips in words what came meanwhile", async () => {
    await project.said(
      ...schedule("create", "busy", "--cron", "* * * * * *", "--asset", "report", "--disabled"),
    );
    expect(await project.said(...schedule("list", "--status", "paused"))).toMatch(
      /^busy +PAUSED /m,
    );
    const resumed = await project.said(...schedule("resume", "busy", "--reason", "go"));
    expect(resumed).toBe("Schedule busy is ACTIVE (version 2).\n");
    expect(await project.said(...schedule("pause", "busy"))).toContain("is PAUSED (version 3)");
    expect(await project.refused(4, ...schedule("pause", "busy"))).toContain("(STATE_ILLEGAL)");
    let ticks = "";
    // A second may not have passed between the commands.
    while (!ticks.includes("skipped")) {
      await project.said(...schedule("resume", "busy"));
      await project.said(...schedule("pause", "busy"));
      ticks = await project.said(...schedule("ticks", "busy", "--status", "skipped"));
    }
    expect(ticks).toMatch(/ skipped +- +- +.+ the schedule was paused$/m);
  });

  test("looks ahead, also for what is no schedule, with the changes of the clock", async () => {
    const { items } = await project.json<NextTimes>(
      ...schedule("next", "new-year", "--count", "2"),
    );
    expect(items).toMatchObject([{ utc_offset: "+01:00" }, { utc_offset: "+01:00" }]);
    const zone = ["--timezone", "Europe/Berlin", "--after", "2026-03-28", "--count", "2"];
    const dry = await project.said(...schedule("next", "--cron", "30 2 * * *", ...zone));
    expect(dry).toMatch(
      /2026-03-29 03:00:00 +\+02:00 +2026-03-29 01:00:00Z +the clock jumps over it/,
    );
    expect(await project.refused(2, ...schedule("next"))).toContain(
      "Expected a schedule, or --cron",
    );
  });

  test("prints what the guide shows", async () => {
    const [, command = "", shown = ""] =
      /```sh\npawl (schedule next .+)\n```\n\n```text\n(.+?)```/s.exec(
        readSource("docs/guide/schedules.md"),
      ) ?? [];
    const args = [...command.matchAll(/"([^"]+)"|\S+/g)].map(([all, quoted]) => quoted ?? all);
    const alike = (text: string) => text.replaceAll(/^(?:NEXT|in \d+\w|\d+\w ago) +/gm, "");
    expect(alike(await project.said(...args))).toBe(alike(shown));
  });

  test("deletes one, which is then listed only when it is asked for", async () => {
    const deleted = await project.json<DefinedSchedule>(...schedule("delete", "busy"));
    expect(deleted).toMatchObject({ name: "busy", state: "DELETED" });
    expect(await project.said(...schedule("list"))).not.toContain("busy");
    expect(await project.said(...schedule("list", "--status", "deleted"))).toMatch(
      /^busy +DELETED /m,
    );
    expect(await project.refused(3, ...schedule("show", "busy"))).toContain("(SCHEDULE_NOT_FOUND)");
  });

  test.each<[number, string[], string]>([
    [2, ["x", "--asset", "report"], "--cron: expected when it ticks"],
    [2, ["x", "--cron", "@daily"], "--asset: expected at least one asset"],
    [2, ["x", "--cron", "0 25 * * *", "--asset", "report"], "has a cron expression that is wrong"],
    [2, ["x", "--cron", "@daily", "--asset", "visits"], "it must say which"],
    [2, ["x", ...YEARLY, "--asset", "report", "--overlap", "maybe"], "Allowed choices are allow"],
    [4, ["new-year", ...YEARLY, "--asset", "report"], "(NAME_TAKEN)"],
  ])("refuses with %i to create %j", async (code, args, sentence) => {
    expect(await project.refused(code, ...schedule("create", ...args))).toContain(sentence);
  });
});

describe("pawl schedule trigger --wait", () => {
  test("waits for all backfills of what is stale, one for each definition", async () => {
    await project.said(
      ...schedule("create", "fresh", ...YEARLY, "--asset", "visits", "--asset", "broken"),
      "--selection",
      "stale",
      "--overlap",
      "skip",
    );
    const { code, stdout } = await project.pawl(schedule("trigger", "fresh", "--wait"));
    expect(code).toBe(1);
    expect(stdout).toMatch(/^Backfill \w+ SUCCEEDED: \d+ succeeded/m);
    expect(stdout).toMatch(/^Backfill \w+ FAILED: 1 failed of 1 partition\b/m);
  });
});

describe("pawl conflicts", () => {
  test("shows whose requests they were, and in what they differ", async () => {
    const key = ["--run-key", "nightly", "--request-id"];
    await project.said("run", "start", "report", ...key, "first");
    const second = ["broken", ...key, "second", "--run-config", '{"deep":true}'];
    const refused = await project.refused(4, "run", "start", ...second);
    expect(refused).toContain("(RUN_KEY_CONFLICT)");
    const existing = ["--on-conflict", "existing", "--wait"];
    expect(await project.said("run", "start", ...second, ...existing)).toContain("SUCCEEDED");
    const text = await project.said("conflicts");
    expect(text).toMatch(/^made by +local, request first \(.+, pos \d+\)$/m);
    expect(text).toMatch(/^refused to +local, request second \(.+, pos \d+\)$/m);
    expect(text).toMatch(/^assets +only the first: report; only the later: broken$/m);
    expect(text).toMatch(/^config +null → \{"deep":true\}$/m);
    const { items } = await project.json<{ items: ConflictDocument[] }>("conflicts");
    const manual = (request_id: string): RunDocument["trigger_source_ref"] => {
      return { type: "manual", user_id: "local", request_id };
    };
    expect(items).toMatchObject([
      {
        differences: ["asset_selection", "config"],
        first: { actor: { principal: "local" }, trigger_source_ref: manual("first") },
        conflicting: { asset_selection: ["broken"], trigger_source_ref: manual("second") },
      },
    ]);
  });
});
