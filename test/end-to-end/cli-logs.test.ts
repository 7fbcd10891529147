import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { BackfillDocument } from "../../src/work/backfill/documents.ts";
import type { RunDocument, RunLogLineDocument } from "../../src/work/run/api.ts";
import { CliProject } from "./cli-project.ts";

type Logs = { lines: RunLogLineDocument[]; older_left_out: boolean };

const CONFIG = `
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { asset, definePawl, staticPartitions } from "pawl";

const letters = asset("letters", {
  partitions: staticPartitions(["a", "b", "c"]),
  retry: { maxAttempts: 2, delayMs: 1 },
  materialize: async ({ partition, attempt, log }) => {
    console.log("reading %s", partition);
    await once(spawn("echo", ["child of " + partition], { stdio: "inherit" }), "close");
    console.warn("odd value", { partition });
    log("stored", { rows: 3, level: "debug" });
    if (partition === "b") throw new TypeError("b is no good, attempt " + attempt);
  },
});
const slow = asset("slow", {
  materialize: async ({ progress }) => {
    console.log("waiting for the file");
    progress(1, 4, "a quarter");
    while (!existsSync("go")) await sleep(20);
    console.error("the file is there,\\nat last");
  },
});
  export default definePawl({ assets: [letters, slow] });
`;

describe("what tasks logged", () => {
  const project = new CliProject();
  afterAll(() => project.remove());
  let run = "";
  let backfill = "";

  test("is shown of a run, oldest first, with the console's lines and the stack of the error", async () => {
    project.write("pawl.config.ts", CONFIG);
    const start = ["run", "start", "letters", "--partitions", "a,b", "--wait", "--json"];
    const { code, stdout, stderr } = await project.launch(start).ended;
    expect(code).toBe(1);
    // What a task prints is shown where its worker runs as well.
    expect(stderr).toContain("reading a\n");
    expect(stderr).toContain("child of a\n");
    run = (JSON.parse(stdout) as { run_id: string }).run_id;

    const { lines, older_left_out } = await project.json<Logs>("logs", run);
    expect(older_left_out).toBe(false);
    expect(lines.map(({ at }) => at)).toEqual(lines.map(({ at }) => at).toSorted());
    const ofA = lines.filter(({ task_key }) => task_key === 0);
    expect(ofA.map(({ level, message, attempt }) => [level, message, attempt])).toEqual([
      ["info", "reading a", 1],
      ["info", "child of a", 1],
      ["warn", "odd value { partition: 'a' }", 1],
      ["debug", "stored", 1],
    ]);
    const errors = lines.filter(({ level }) => level === "error");
    expect(errors).toMatchObject([
      { task_key: 1, partition_keys: ["b"], attempt: 1 },
      { task_key: 1, attempt: 2, message: "TypeError: b is no good, attempt 2" },
    ]);

    const text = await project.said("logs", run.slice(0, 12));
    expect(text).toMatch(
      /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} debug run_\w{8}\/0 letters a #1 {2}stored rows=3$/m,
    );
    expect(text).toMatch(
      / error run_\w{8}\/1 letters b #2 {2}TypeError: b is no good, attempt 2\n/,
    );
    expect(text).toMatch(/^ {4}TypeError: b is no good, attempt 2\n {8}at .*pawl\.config\.ts/m);
  });

  test("is shown of one task, of a partition, and cut where a limit says", async () => {
    const messages = async (...args: string[]): Promise<string[]> => {
      const { lines } = await project.json<Logs>("logs", ...args);
      return lines.map(({ message }) => message);
    };
    expect(await messages(run, "0")).toEqual([
      "reading a",
      "child of a",
      "odd value { partition: 'a' }",
      "stored",
    ]);
    expect(await messages("letters", "a")).toEqual(await messages(run, "0"));
    expect(await messages("letters@b")).toEqual(await messages(run, "1"));
    expect(await messages("letters", "c")).toEqual([]);
    expect(await project.said("logs", "letters", "c")).toBe("Nothing was logged.\n");

    const cut = await project.json<Logs>("logs", run, "1", "--limit", "3");
    expect(cut.older_left_out).toBe(true);
    expect(cut.lines.map(({ message }) => message)).toEqual((await messages(run, "1")).slice(-3));
    const text = await project.said("logs", run, "1", "--limit", "3");
    expect(text).toMatch(/^… 7 older lines left out here: --limit shows more\.\n/);
  });

  test("is shown of a backfill, run by run as they come", async () => {
    const args = ["backfill", "create", "letters", "--partitions", "a,c", "--chunk-size", "1"];
    await project.said(...args, "--backfill-id", "both", "--wait");
    backfill = "both";
    const { lines } = await project.json<Logs>("logs", backfill);
    expect(lines).toHaveLength(8);
    expect(new Set(lines.map(({ run_id }) => run_id)).size).toBe(2);
    expect(lines.map(({ at }) => at)).toEqual(lines.map(({ at }) => at).toSorted());
    const cut = await project.said("logs", backfill, "--limit", "2");
    expect(cut).toMatch(/^… older lines left out here: --limit shows more\.\n/);
    expect(cut.trimEnd().split("\n")).toHaveLength(3);
  });

  test("is refused in one sentence where there is nothing of that name", async () => {
    expect(await project.refused(2, "logs", "letters")).toContain(
      "The asset letters has partitions",
    );
    expect(await project.refused(2, "logs", run, "first")).toContain(
      'Expected the number of a task behind the run, such as 0, got "first"',
    );
    expect(await project.refused(3, "logs", run, "9")).toContain("(TASK_NOT_FOUND)");
    expect(await project.refused(3, "logs", "run_00000000000000000000000000")).toContain(
      "(RUN_NOT_FOUND)",
    );
    expect(await project.refused(3, "logs", "nothing")).toContain(
      'There is no run, no backfill and no asset "nothing".',
    );
    expect(await project.refused(2, "logs", "letters", "z")).toContain("(PARTITION_INVALID)");
  });

  test("is shown with the attempts by `run show`, and the stack of the last error", async () => {
    const text = await project.said("run", "show", run);
    expect(text).toMatch(/^ *1 +1 +FAILED .*TypeError: b is no good, attempt 1$/m);
    expect(text).toMatch(/^ *1 +2 +FAILED .*TypeError: b is no good, attempt 2$/m);
    expect(text).toMatch(/^Error of task 1, attempt 2:\n {4}TypeError: b is no good, attempt 2\n/m);
    const shown = await project.json<RunDocument & { attempts: { stack: string | null }[] }>(
      "run",
      "show",
      run,
    );
    expect(shown.attempts.map(({ stack }) => stack?.split("\n")[0] ?? null)).toEqual([
      null,
      "TypeError: b is no good, attempt 2",
    ]);
  });
});

test("lines are followed until the work has ended, and the server tells of tasks", async () => {
  const project = new CliProject();
  project.write("pawl.config.ts", CONFIG);
  const server = project.launch(["dev", "--port", "0"]);
  await server.said("listens on");
  const { run_id } = await project.json<{ run_id: string }>("run", "start", "slow");
  const followed = project.launch(["logs", run_id, "--follow"]);
  await followed.said("waiting for the file");
  await server.said("slow started.");
  await expect
    .poll(() => project.said("run", "show", run_id))
    .toMatch(/^ *0 +RUNNING +slow .* 1\/4 \(25%\) a quarter$/m);
  const ofTask = project.launch(["logs", run_id, "0", "--follow", "--json"]);
  await ofTask.said("waiting for the file");
  writeFileSync(join(project.folder, "go"), "");

  const { code, stdout } = await followed.ended;
  expect(code).toBe(0);
  expect(stdout.match(/waiting for the file|the file is there/g)).toEqual([
    "waiting for the file",
    "the file is there",
  ]);
  expect(stdout).toMatch(/ error run_\w{8}\/0 slow #1 {2}the file is there,\n {4}at last\n$/);
  const lines = (await ofTask.ended).stdout.trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as RunLogLineDocument).level)).toEqual([
    "info",
    "error",
  ]);
  await server.said("slow succeeded.");

  const letters = ["backfill", "create", "letters", "--all", "--chunk-size", "1"];
  const { backfill_id } = await project.json<BackfillDocument>(...letters);
  const ofBackfill = await project.launch(["logs", backfill_id, "--follow"]).ended;
  expect(ofBackfill.code).toBe(0);
  for (const key of ["a", "b", "c"]) expect(ofBackfill.stdout).toContain(`reading ${key}\n`);
  expect(ofBackfill.stdout.match(/b is no good, attempt 2$/gm)).toHaveLength(2);
  await server.said("letters b failed and is tried again: TypeError: b is no good, attempt 1");
  await server.said("letters b failed: TypeError: b is no good, attempt 2");
  server.child.kill("SIGTERM");
  const { stderr } = await server.ended;
  expect(stderr).toMatch(/error .*letters b failed: TypeError: b is no good, attempt 2/);
  await project.remove();
});

test("`pawl start` tells of failures only, or of nothing, or of all", async () => {
  const project = new CliProject();
  project.write("pawl.config.ts", CONFIG);
  const said = async (...flags: string[]): Promise<string> => {
    const server = project.launch(["start", "--port", "0", ...flags]);
    await server.said("listens on");
    await project.pawl(["run", "start", "letters", "--partitions", "a,b", "--wait"]);
    server.child.kill("SIGTERM");
    return (await server.ended).stderr;
  };
  const failed = "letters b failed: TypeError: b is no good, attempt 2";
  const usual = await said();
  expect(usual).toContain(failed);
  expect(usual).not.toMatch(/letters a (?:started|succeeded)/);
  const none = await said("--task-lines", "off");
  expect(none).not.toContain(failed);
  const all = await said("--task-lines", "all");
  expect(all).toContain("letters a started.");
  expect(all).toContain("letters a succeeded.");
  const refused = await project.pawl(["start", "--task-lines", "some"]);
  expect(refused).toMatchObject({ code: 2 });
  expect(refused.stderr).toContain("some");
  await project.remove();
});
