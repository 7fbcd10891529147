import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type EmbeddedPawl, type PawlOptions, startPawl } from "../../src/embedded/index.ts";
import { asset, definePawl, type Project, shell, type TaskContext } from "../../src/index.ts";
import { freshDatabaseUrl } from "../postgres.ts";

const METHODS = ["debug", "log", "info", "warn", "error", "dir", "dirxml"] as const;

const started: EmbeddedPawl[] = [];
const services: Server[] = [];
const folders: string[] = [];
const real = { ...console };
/** What the console has shown. */
let shown: string[] = [];

beforeEach(() => {
  shown = [];
  for (const method of METHODS) {
    console[method] = (...said: unknown[]) => void shown.push(`${method}: ${said.join(" ")}`);
  }
});

afterEach(async () => {
  for (const pawl of started.splice(0)) await pawl.stop();
  Object.assign(console, real);
  for (const service of services.splice(0)) {
    service.closeAllConnections();
    service.close();
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "pawl-output-"));
  folders.push(folder);
  return folder;
}

async function begin(options: PawlOptions): Promise<EmbeddedPawl> {
  const pawl = await startPawl(options);
  started.push(pawl);
  return pawl;
}

function made(materialize: (context: TaskContext) => void | Promise<void>): Project {
  return definePawl({ assets: [asset("report", { materialize })] });
}

/** Makes the asset once; what its log has then. */
async function linesOfRun({ client }: EmbeddedPawl): Promise<string[]> {
  const { run_id } = await client.call("requestRun", { body: { assets: ["report"] } });
  await client.runs.waitFor(run_id);
  const { items } = await client.call("listRunLogs", { params: { run_id } });
  return items.map(({ level, message }) => `${level}: ${message}`);
}

const methodsNow = () => METHODS.map((method) => console[method]);

describe.each([
  { name: "SQLite", store: async () => freshFolder() },
  { name: "PostgreSQL", store: () => freshDatabaseUrl() },
])("on $name", ({ store: freshStore }) => {
  test("I96: what a task writes is kept with it, and what the service writes is not", async () => {
    const before = methodsNow();
    const service = createServer((_request, response) => {
      console.log("a request from a task");
      response.end();
    });
    services.push(service);
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    const { port } = service.address() as AddressInfo;
    const between = Promise.withResolvers<void>();
    const entered = Promise.withResolvers<void>();
    const project = made(async () => {
      console.log("a task");
      entered.resolve();
      await between.promise;
      await fetch(`http://127.0.0.1:${port}/`);
      console.warn("its end");
    });
    const pawl = await begin({ project, store: await freshStore() });
    const lines = linesOfRun(pawl);
    await entered.promise;
    console.error("the service");
    between.resolve();

    expect(await lines).toEqual(["info: a task", "warn: its end"]);
    expect(shown).toEqual([
      "log: a task",
      "error: the service",
      "log: a request from a task",
      "warn: its end",
    ]);
    await pawl.stop();
    expect(methodsNow()).toEqual(before);
  });
});

test("I96: several in one process keep the lines of their own tasks, each until it stops", async () => {
  const before = methodsNow();
  const projectOf = (name: string) => made(() => console.log(name));
  const first = await begin({ project: projectOf("first"), store: freshFolder() });
  const second = await begin({
    project: projectOf("second"),
    store: freshFolder(),
    taskOutput: "keep",
  });
  const third = await begin({
    project: projectOf("third"),
    store: freshFolder(),
    taskOutput: "show",
  });

  const all = await Promise.all([first, second, third].map(linesOfRun));
  expect(all).toEqual([["info: first"], ["info: second"], []]);
  expect(shown.toSorted()).toEqual(["log: first", "log: third"]);

  await first.stop();
  expect(await linesOfRun(second)).toEqual(["info: second"]);
  await second.stop();
  expect(methodsNow()).toEqual(before);
  expect(await linesOfRun(third)).toEqual([]);
});

test("lines that come after the end of a task are shown where none are otherwise", async () => {
  const ended = Promise.withResolvers<void>();
  const written = Promise.withResolvers<void>();
  const project = made(() => {
    void ended.promise.then(() => {
      console.log("too late");
      written.resolve();
    });
    console.log("in time");
  });
  const pawl = await begin({ project, store: freshFolder(), taskOutput: "keep" });
  expect(await linesOfRun(pawl)).toEqual(["info: in time"]);
  ended.resolve();
  await written.promise;
  expect(shown).toEqual(["log: too late"]);
});

test("what Pawl itself says is no line of the task that made it say so", async () => {
  const say = (_fields: object, message: string): void => console.info(message);
  const open = freshFolder();
  chmodSync(open, 0o755);
  const project = made(async () => {
    const inner = await startPawl({
      project: definePawl({}),
      store: open,
      concurrency: 0,
      log: { info: say, warn: say, error: say },
    });
    await inner.stop();
    console.log("a task");
  });
  const pawl = await begin({ project, store: freshFolder() });
  expect(await linesOfRun(pawl)).toEqual(["info: a task"]);
  expect(shown).toEqual([expect.stringContaining(open), "log: a task"]);
});

test("what commands and child processes write is kept with their task", async () => {
  const commands = definePawl({ assets: [asset("report", { materialize: shell("echo said") })] });
  const children = made(async () => {
    const child = spawn("/bin/sh", ["-c", "echo inherited >&2"], { stdio: "inherit" });
    await once(child, "close");
  });
  const first = await begin({ project: commands, store: freshFolder() });
  const second = await begin({ project: children, store: freshFolder(), taskOutput: "keep" });
  expect(await linesOfRun(first)).toEqual(["info: said"]);
  expect(await linesOfRun(second)).toEqual(["warn: inherited"]);
});

test("says what may become of it", async () => {
  const options = { project: made(() => undefined), store: freshFolder() };
  const wrong = JSON.parse('{ "taskOutput": "hide" }') as PawlOptions;
  await expect(startPawl({ ...options, ...wrong })).rejects.toThrow(
    'startPawl(), taskOutput: expected keep-and-show or keep or show, got "hide".',
  );
});
