import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { connectWorker } from "../../src/client/worker-connection.ts";
import {
  killAll,
  openSite,
  PawlProcess,
  removeSite,
  type Site,
  until,
  untilReady,
} from "./pawl-process.ts";

let site: Site;

beforeEach(async () => {
  if (process.platform === "linux") requireStrace();
  site = await openSite();
});

afterEach(async () => {
  await killAll();
  removeSite(site);
});

/** What was asked of the operating system, in order: texts in writes are as they were written. */
type SystemCall = { name: string; rest: string };

/** Without the tool that sees system calls the promise cannot be tested, and that is a failure. */
function requireStrace(): void {
  const isThere = () => spawnSync("strace", ["-V"]).status === 0;
  if (isThere()) return;
  if (process.getuid?.() === 0) {
    spawnSync("apt-get", ["update", "-qq"]);
    spawnSync("apt-get", ["install", "-y", "-qq", "strace"]);
  }
  if (!isThere()) throw new Error("strace is needed to see when the log is synced; install it.");
}

function tracedServer(file: string): PawlProcess {
  // The tracer runs beside the server instead of above it (-D), so that signals reach the server.
  const strace = ["strace", "-D", "-f", "-y", "-s", "9000", "-o", file];
  const calls = "trace=pwrite64,fsync,fdatasync,write,writev,sendto,sendmsg";
  const args = ["start", "--port", String(site.port), "--no-worker"];
  return new PawlProcess(site, args, [...strace, "-e", calls]);
}

/** The calls of a trace; one that was interrupted by others counts when it came back. */
function readTrace(file: string): SystemCall[] {
  const unfinished = new Map<string, string>();
  const calls: SystemCall[] = [];
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [, pid = "", text = ""] = /^(\d+)\s+(.*)$/.exec(line) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(text);
    if (text.endsWith("<unfinished ...>")) {
      unfinished.set(pid, text.slice(0, -"<unfinished ...>".length));
      continue;
    }
    const whole = resumed === null ? text : `${unfinished.get(pid)}${resumed[1]}`;
    const [, name = "", rest = ""] = /^(\w+)\((.*)$/.exec(whole) ?? [];
    if (name !== "") calls.push({ name, rest });
  }
  return calls;
}

/** Whether something was written to the log, then the log was synced, then the answer went out. */
function isDurableBefore(calls: readonly SystemCall[], recorded: string, answer: string) {
  const isLog = ({ rest }: SystemCall) => /^\d+<[^>]*pawl\.db-wal>/.test(rest);
  const written = calls.findIndex(
    (call) => call.name === "pwrite64" && isLog(call) && call.rest.includes(recorded),
  );
  const synced = calls.findIndex(
    (call, at) => at > written && call.name.endsWith("sync") && isLog(call),
  );
  const answered = calls.findIndex(
    ({ name, rest }) => name !== "pwrite64" && rest.includes(answer) && /^\d+<socket:/.test(rest),
  );
  return { isWritten: written >= 0, isSyncedBefore: synced >= 0 && synced < answered };
}

describe.skipIf(process.platform !== "linux")("an answer of a server on SQLite", () => {
  test("I3: leaves only after the log that holds what it acknowledges is synced", async () => {
    const file = join(site.directory, "trace");
    const server = tracedServer(file);
    await untilReady(server);
    const acknowledged = await changeThings();
    const work = await doWork();
    expect(await server.terminate()).toEqual({ code: 0, signal: null });
    const lastLine = new RegExp(String.raw`^${server.pid}\s+\+\+\+ exited`, "m");
    await until(() => lastLine.test(readFileSync(file, "utf8")));

    const calls = readTrace(file);
    const durable = { isWritten: true, isSyncedBefore: true };
    for (const id of acknowledged) {
      const answer = String.raw`\"accepted_event_id\":\"${id}\"`;
      expect(isDurableBefore(calls, id, answer), id).toEqual(durable);
    }
    for (const [recorded, answer] of work) {
      expect(isDurableBefore(calls, recorded, answer), recorded).toEqual(durable);
    }
  });
});

/** Changes things by the API, one after the other; answers the events that were acknowledged. */
async function changeThings(): Promise<string[]> {
  const client = createClient({ url: site.url });
  const selector = { type: "range" as const, start: "2020-01-01", end: "2020-03-01" };
  const body = { assets: ["raw"], selector };
  const created = await client.call("createBackfill", { body });
  const params = { backfill_id: created.backfill_id };
  const retune = { max_concurrent_runs: 3 };
  const answers = [
    created,
    await client.call("retuneBackfill", { params, body: retune }),
    await client.call("pauseBackfill", { params, body: {} }),
    await client.call("resumeBackfill", { params, body: {} }),
    await client.call("addPartitionKeys", {
      params: { asset_key: "items" },
      body: { keys: ["one", "two"] },
    }),
    await client.call("requestRun", { body: { assets: ["items"], partition_keys: ["one"] } }),
  ];
  return answers.map(({ accepted_event_id }) => accepted_event_id ?? "none");
}

/** Does a task as a worker does; answers what is recorded of each step and how it is acknowledged. */
async function doWork(): Promise<[recorded: string, answer: string][]> {
  const worker = connectWorker({ url: site.url });
  const worker_id = "worker";
  const lease_id = "lease-of-the-worker";
  const claimed = await worker.claim({
    worker_id,
    lease_id,
    slots: 1,
    assets: ["items"],
    code_version: null,
    wait_ms: 10_000,
  });
  const [group] = claimed.groups;
  const [task] = group?.tasks ?? [];
  if (group === undefined || task === undefined) throw new Error("There was no task.");
  const ref = { run_pos: group.run_pos, task_key: task.task_key, attempt: task.attempt };
  await worker.checkpoint({ items: [{ ...ref, value: "how-far-it-got" }] });
  await worker.report({
    worker_id,
    code_version: null,
    results: [{ ...ref, outcome: "SUCCEEDED", metadata: { made: "what-it-made" } }],
    released_leases: [lease_id],
  });
  worker.close();
  return [
    [lease_id, String.raw`\"lease_id\":\"${lease_id}\"`],
    ["how-far-it-got", String.raw`\"accepted\":[true]`],
    ["what-it-made", String.raw`\"results\":[\"recorded\"]`],
  ];
}
