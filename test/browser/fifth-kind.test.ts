import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { KindDocument, WorkDocument } from "../../src/work/work-api.ts";
import { CliProject } from "../end-to-end/cli-project.ts";
import { dropDatabase, freshDatabaseUrl } from "../postgres.ts";
import { act, confirmAction, openAction, typeInto } from "./keyboard.ts";
import { expectAccessible, TestBrowser } from "./test-browser.ts";

/*
 * A kind of work that Pawl has not: it counts to a number in chunks. It is one folder and one line in
 * the list of kinds, put into a copy of the sources; everything else here is there by itself.
 */

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CLONE = mkdtempSync(join(tmpdir(), "pawl-fifth-"));
const PAWL = join(CLONE, "bin", "pawl");

const CONFIG = `
  import { existsSync } from "node:fs";
  import { asset, definePawl } from "pawl";

  export default definePawl({
    assets: [
      asset("counter", {
        retry: { maxAttempts: 1 },
        materialize({ config }) {
          if (config.from === 20 && existsSync("broken")) throw new Error("20 is broken");
        },
      }),
      asset("sleeper", {
        materialize: ({ signal }) => new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
      }),
    ],
  });
`;

beforeAll(() => {
  for (const name of ["src", "schema", "bin", "package.json", "tsconfig.json"]) {
    const filter = (path: string) => !/\.test\.tsx?$/.test(path);
    cpSync(join(ROOT, name), join(CLONE, name), { recursive: true, filter });
  }
  for (const name of ["node_modules", "dist"]) symlinkSync(join(ROOT, name), join(CLONE, name));
  // The folder, and the line.
  cpSync(join(ROOT, "test/fifth-kind/count"), join(CLONE, "src/work/count"), { recursive: true });
  const list = join(CLONE, "src/work/kinds.ts");
  const text = readFileSync(list, "utf8");
  const listed = text.replace(/(KINDS: readonly WorkKind\[\] = \[[^\]]*)\]/, "$1, COUNT]");
  expect(listed).not.toBe(text);
  writeFileSync(list, `import { COUNT } from "./count/kind.ts";\n${listed}`);
});

afterAll(() => rmSync(CLONE, { recursive: true, force: true }));

test("a fifth kind of work is one folder and one line, and all of Pawl's types agree with it", () => {
  const config = { extends: "./tsconfig.json", include: ["src"] };
  writeFileSync(join(CLONE, "tsconfig.fifth.json"), JSON.stringify(config));
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  const { status, stdout } = spawnSync(tsc, ["-p", "tsconfig.fifth.json"], {
    cwd: CLONE,
    encoding: "utf8",
  });
  expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
});

describe.each(["SQLite", "PostgreSQL"] as const)("a count on %s", (store) => {
  let project: CliProject;
  let database: string | null = null;
  let env: Record<string, string>;
  let url: string;

  const get = async <Document>(path: string): Promise<Document> => {
    const answer = await fetch(`${url}/api/v1/orchestration/${path}`);
    expect(answer.status).toBe(200);
    return (await answer.json()) as Document;
  };
  const created = (...args: string[]) => project.json<WorkDocument>("count", "create", ...args);

  beforeAll(async () => {
    project = new CliProject(PAWL);
    project.write("pawl.config.ts", CONFIG);
    if (store === "PostgreSQL") database = await freshDatabaseUrl();
    env = database === null ? {} : { DATABASE_URL: database };
    const serving = project.launch(["start", "--port", "0"], env);
    await serving.said("listens on");
    const file = readFileSync(join(project.folder, ".pawl", "server.json"), "utf8");
    ({ url } = JSON.parse(file) as { url: string });
  });

  afterAll(async () => {
    await project.remove();
    if (database !== null) dropDatabase(database);
  });

  test("counts to its number, with its progress and why it stands where it does", async () => {
    const count = await created("--asset", "counter", "--to", "45", "--wait");
    expect(count).toMatchObject({
      kind: "count",
      state: "COMPLETE",
      progress: { done: 45, failed: 0, total: 45, unit: "numbers" },
    });
    const why = await get<{ items: { type: string }[] }>(`events/why?entity=${count.id}`);
    expect(why.items.map(({ type }) => type)).toEqual(["CountMade", "CountStateChanged"]);
    const { items } = await get<{ items: { run_id: string }[] }>("runs?trigger=work");
    expect(items).toHaveLength(5);
    const run = await project.said("run", "show", items[0]?.run_id ?? "");
    expect(run).toContain(`triggered by  count ${count.id}, part 4`);
    const origin = await get<{ items: { type: string }[] }>(
      `events/why?entity=${items[0]?.run_id}`,
    );
    expect(origin.items[0]).toMatchObject({ type: "CountMade" });
    expect(await project.said("count", "list")).toContain("45 of 45 numbers");
  });

  test("fails with its chunks, and runs only those again when they are retried", async () => {
    project.write("broken", "");
    const { code, stdout, stderr } = await project.pawl([
      "count",
      "create",
      "--asset",
      "counter",
      "--to",
      "45",
      "--wait",
      "--json",
    ]);
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining("FAILED") });
    const { id, progress, details } = JSON.parse(stdout) as WorkDocument;
    expect({ progress, details }).toMatchObject({
      progress: { done: 35, failed: 10 },
      details: { failed_chunks: [2] },
    });
    expect(await project.refused(4, "count", "pause", id)).toContain(
      "is FAILED; pausing is possible only while it is RUNNING or PAUSED",
    );
    rmSync(join(project.folder, "broken"));
    await project.said("count", "retry", id);
    expect(await project.json("count", "watch", id)).toMatchObject({ state: "COMPLETE" });
    const { items } = await get<{ items: unknown[] }>("runs?trigger=work&limit=200");
    expect(items).toHaveLength(11);
  });

  test("pauses, resumes and is cancelled with its runs, and is seen in the metrics meanwhile", async () => {
    const made = await created("--asset", "sleeper", "--to", "100");
    expect(await project.said("count", "pause", made.id, "--reason", "later")).toContain("PAUSED");
    expect(await project.refused(4, "count", "resume", made.id, "--expect", "1")).toContain(
      "is at state version 2 (PAUSED), not 1",
    );
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toContain(`pawl_work_total{kind="count",id="${made.id}",unit="numbers"} 100`);
    await project.said("count", "resume", made.id);
    await project.said("count", "cancel", made.id);
    await vi.waitFor(async () => {
      const { items } = await get<{ items: unknown[] }>("runs?status=PENDING,RUNNING");
      expect(items).toEqual([]);
    }, 600_000);
    const path = `work/count/${made.id}`;
    expect(await get<WorkDocument>(path)).toMatchObject({
      state: "CANCELLED",
      progress: { done: 0 },
    });
  });

  test("is known to the API, which says what it takes and refuses the rest", async () => {
    const { items } = await get<{ items: KindDocument[] }>("work");
    expect(items).toMatchObject([
      {
        kind: "count",
        about: "count to a number, in chunks",
        input: { required: ["asset", "to"] },
      },
    ]);
    expect(
      await project.refused(2, "count", "create", "--asset", "counter", "--to", "none"),
    ).toContain("body.to");
    expect(await project.refused(3, "count", "status", "01M7MDD7KGH1PC8KWD8P72ARMM")).toContain(
      "WORK_NOT_FOUND",
    );
    expect(await project.refused(2, "count", "list", "--status", "done")).toContain(
      'A count is never "DONE"; its states are RUNNING, PAUSED, FAILED, COMPLETE, CANCELLED.',
    );
    expect(await project.refused(2, "run", "start", "counter", "--run-key", "count:x")).toContain(
      "begins with count:, which Pawl keeps for itself",
    );
    const answer = await fetch(`${url}/api/v1/orchestration/work/sum`);
    expect([answer.status, await answer.json()]).toMatchObject([404, { code: "WORK_NOT_FOUND" }]);
  });

  test("has rows that are what the ledger says", async () => {
    const { code, stdout } = await project.pawl(["verify"], env);
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/[0-9a-f]{64}/),
    });
  });

  test.runIf(store === "SQLite")("has its place in the menu, its list and its page", async () => {
    const browser = await TestBrowser.open();
    const { page, problems } = await browser.visit(`${url}/`);
    page.setDefaultTimeout(180_000);
    await page.getByRole("link", { name: "Counts" }).click();
    const dialog = await openAction(page, "Create a count");
    await typeInto(page, dialog.getByLabel("asset"), "sleeper");
    await typeInto(page, dialog.getByLabel("to", { exact: true }), "30");
    await confirmAction(page, dialog, "Create a count");
    await page.getByRole("heading", { name: /^Count .* running/ }).waitFor();
    await act(page, "Pause", "to look at it");
    await page.getByRole("heading", { name: /^Count .* paused/ }).waitFor();
    expect(await page.getByRole("button", { name: "Pause" }).getAttribute("title")).toBe(
      "It is paused already.",
    );
    await expectAccessible(page);
    await act(page, "Cancel");
    await page.getByRole("heading", { name: /^Count .* cancelled/ }).waitFor();
    await page.getByRole("link", { name: "Counts" }).first().click();
    await page.getByRole("row").nth(4).waitFor();
    expect(problems).toEqual([]);
    await browser.close();
  });
});

test("a fifth kind is in the clone that it was put into, and nowhere else", () => {
  expect(existsSync(join(ROOT, "src/work/count"))).toBe(false);
});
