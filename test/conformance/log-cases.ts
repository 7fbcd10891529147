import { expect, test } from "vitest";
import type { Json } from "../../src/kernel/canonical.ts";
import { RUNS, type RunState } from "../../src/work/run/rows.ts";
import type { LogQuota, Reader } from "../../src/store/store.ts";
import { NOON, ROOMY, append, changesOf, commit, putTasks, run } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const HOLDER = "token-1";
/** What a line costs besides its texts. */
const LINE_BYTES = 100;
const LATER = "2999-01-01T00:00:00.000Z";

/** The logs of tasks: within the quota of their run, and gone when they are old. */
export function logCases({ durable, place, store, ws }: Suite): void {
  /** Makes runs with their tasks, all running. */
  const makeRuns = async (runs: readonly number[], tasks = 1): Promise<void> => {
    await commit(store(), ws(), {
      changes: [changesOf(RUNS, { inserted: runs.map((run_pos) => run({ run_pos })) })],
    });
    const all = runs.flatMap((run_pos) =>
      Array.from({ length: tasks }, (_, task_key) => ({ run_pos, task_key })),
    );
    await putTasks(store(), ws(), all);
  };
  const endRuns = (runs: readonly number[], state: RunState = "SUCCEEDED"): Promise<void> =>
    commit(store(), ws(), {
      changes: [changesOf(RUNS, { updated: runs.map((run_pos) => run({ run_pos, state })) })],
      runsFinished: runs,
    });
  const line = (message: string, given: { run_pos?: number; task_key?: number } = {}) => {
    return { run_pos: 1, task_key: 0, attempt: 1, message, fields: null as Json, ...given };
  };
  type SaidLine = ReturnType<typeof line> & { ends_attempt?: boolean };
  const say = (lines: readonly SaidLine[], quota: LogQuota = ROOMY) =>
    store().appendLogs(ws(), HOLDER, lines, quota);
  const logs = (run_pos = 1, task_key = 0) =>
    store().read(ws(), (reader) => reader.logs(run_pos, task_key, 0, 1_000));
  const texts = async (run_pos = 1, task_key = 0): Promise<string[]> =>
    (await logs(run_pos, task_key)).map(({ message }) => message);
  const prune = (
    silentSince: string | null = null,
    linesMax = 1_000,
    bytesEnough = 1_000_000_000,
  ) => store().pruneLogs(ws(), { silentSince, bytesEnough, linesMax });

  test("I35: keeps log lines in order behind the fence", async () => {
    await makeRuns([1]);
    const fielded = (message: string, attempt = 1) => {
      return { ...line(message), attempt, fields: { message } };
    };
    const kept = await say([fielded("a"), fielded("stale", 2), fielded("b")]);
    expect(kept).toEqual(["kept", "lost", "kept"]);
    await say([fielded("c")]);
    const read = (after: number, limit: number) =>
      store().read(ws(), (reader) => reader.logs(1, 0, after, limit));
    const lines = await read(0, 10);
    expect(lines).toMatchObject(["a", "b", "c"].map((message) => fielded(message)));
    const [first] = await read(0, 1);
    expect(await read(first?.line ?? 0, 10)).toEqual(lines.slice(1));
    expect(await say([])).toEqual([]);
  });

  test("I35: reads the lines of many tasks in parts, whether they lie side by side or apart", async () => {
    await makeRuns([1], 60);
    const keys = Array.from({ length: 60 }, (_, task_key) => task_key);
    for (const message of ["first", "second"]) {
      await say(keys.map((task_key) => line(message, { task_key })));
    }
    const read = async (tasks: number[], limit: number) => {
      const lines: [task: number, message: string][] = [];
      let after: [task: number, line: number] | null = null;
      for (;;) {
        const page = await store().read(ws(), (reader) =>
          reader.runLogs(1, { after, tasks, since: null }, limit),
        );
        expect(page.length).toBeLessThanOrEqual(limit);
        for (const said of page) {
          lines.push([said.task_key, said.message]);
          after = [said.task_key, said.line];
        }
        if (page.length < limit) return lines;
      }
    };
    const linesOf = (tasks: number[]) =>
      tasks.flatMap((task) => [
        [task, "first"],
        [task, "second"],
      ]);
    const [even, middle] = [keys.filter((key) => key % 2 === 0), keys.slice(7, 50)];
    for (const tasks of [even, middle, [59], [3, 58]]) {
      expect(await read(tasks, 7)).toEqual(linesOf(tasks));
      expect(await read(tasks, 200)).toEqual(linesOf(tasks));
    }
  });

  test("I35: reads the lines of a run task by task, of some tasks, from a place and from a time on", async () => {
    await makeRuns([1, 2], 3);
    await say([2, 0, 1, 0].map((task_key, at) => line(`${at}`, { task_key })));
    await say([line("other", { run_pos: 2 })]);
    type Which = Partial<Parameters<Reader["runLogs"]>[1]>;
    const read = (which: Which, limit = 10) =>
      store().read(ws(), (reader) =>
        reader.runLogs(1, { after: null, tasks: null, since: null, ...which }, limit),
      );
    const all = await read({});
    expect(all.map(({ task_key, message }) => [task_key, message])).toEqual([
      [0, "1"],
      [0, "3"],
      [1, "2"],
      [2, "0"],
    ]);
    const [, second] = await read({}, 2);
    const after = [second?.task_key ?? 0, second?.line ?? 0] as const;
    expect(await read({ after })).toEqual(all.slice(2));
    expect(await read({ tasks: [0, 2] })).toEqual(all.filter(({ task_key }) => task_key !== 1));
    expect(await read({ tasks: [] })).toEqual([]);
    const [newest = ""] = all
      .map(({ at }) => at)
      .toSorted()
      .toReversed();
    expect(await read({ since: newest })).toEqual(all.filter(({ at }) => at >= newest));
    expect(await read({ since: LATER })).toEqual([]);
    const sizes = await store().read(ws(), (reader) => reader.runLogSizes([1, 2, 3]));
    expect(sizes.toSorted((one, other) => one.run_pos - other.run_pos)).toMatchObject([
      { run_pos: 1, bytes: 4 * (LINE_BYTES + 1), dropped: 0 },
      { run_pos: 2, bytes: LINE_BYTES + 5, dropped: 0 },
    ]);
  });

  test("I64: drops what is beyond a run's quota, and says so once where each log was cut", async () => {
    await makeRuns([1, 2], 2);
    // Room for three lines of two letters, and the notice.
    const quota = { runBytesMax: 3 * (LINE_BYTES + 2) + 50, notice: "the rest was dropped" };
    expect(await say([line("aa"), line("éx")], quota)).toEqual(["kept", "kept"]);
    const more = [line("bb", { task_key: 1 }), line("cc", { task_key: 1 }), line("dd")];
    expect(await say(more, quota)).toEqual(["kept", "dropped", "dropped"]);
    expect(await texts(1, 1)).toEqual(["bb", quota.notice]);
    expect(await texts(1, 0)).toEqual(["aa", "éx", quota.notice]);
    expect(await say([line("ee"), line("ff", { task_key: 1 })], quota)).toEqual([
      "dropped",
      "dropped",
    ]);
    expect(await texts(1, 1)).toEqual(["bb", quota.notice]);
    expect(await texts(1, 0)).toEqual(["aa", "éx", quota.notice]);
    // Another run has a quota of its own.
    expect(await say([line("gg", { run_pos: 2 })], quota)).toEqual(["kept"]);
    if (!durable) return;
    const [dropped] = await place().sql("select dropped from pawl.run_logs where run_pos = 1");
    expect(dropped?.map(Number)).toEqual([4]);
  });

  test("I64: keeps the line that ends an attempt beyond the quota, within a reserve", async () => {
    await makeRuns([1, 2], 2);
    const room = 2 * (LINE_BYTES + 2);
    const notice = "cut";
    const cost = LINE_BYTES + notice.length;
    const quota = { runBytesMax: room, endBytesMax: room + cost + LINE_BYTES + 5, notice };
    const end = (message: string, given = {}) => ({ ...line(message, given), ends_attempt: true });
    const flood = Array.from({ length: 20 }, () => line("x".repeat(50)));
    const verdicts = await say([line("aa"), line("bb"), ...flood, end("error")], quota);
    expect(verdicts).toEqual(["kept", "kept", ...flood.map(() => "dropped"), "kept"]);
    expect(await texts()).toEqual(["aa", "bb", notice, "error"]);
    // The reserve is used up, and another run has its own, also where there is no room at all.
    expect(await say([end("e", { task_key: 1 })], quota)).toEqual(["dropped"]);
    const none = { ...quota, runBytesMax: 0 };
    const other = { run_pos: 2 };
    const later = await say([line("a", other), line("b", other), end("last", other)], none);
    expect(later).toEqual(["dropped", "dropped", "kept"]);
    expect(await texts(2)).toEqual([notice, "last"]);
    expect(await say([line("a", other)], none)).toEqual(["dropped"]);
    expect(await texts(2)).toEqual([notice, "last", notice]);
  });

  test("I64: a log that goes on after a cut says it again at the next", async () => {
    await makeRuns([1]);
    const none = { runBytesMax: 0, notice: "too much within an hour" };
    await say([line("a")]);
    expect(await say([line("b"), line("c")], none)).toEqual(["dropped", "dropped"]);
    await say([line("d")]);
    await say([line("e")], none);
    expect(await texts()).toEqual(["a", none.notice, "d", none.notice]);
  });

  test("I64: a line without any text is not free", async () => {
    await makeRuns([1]);
    const quota = { runBytesMax: 10 * LINE_BYTES, notice: "cut" };
    const verdicts = await say(
      Array.from({ length: 50 }, () => line("")),
      quota,
    );
    expect(verdicts.filter((verdict) => verdict === "kept")).toHaveLength(10);
    expect(await texts()).toHaveLength(11);
  });

  test("I77: what another token says of a task cuts no log, and counts for nothing", async () => {
    await putTasks(store(), ws(), [{ claimed_by: HOLDER }]);
    const none = { runBytesMax: 0, notice: "cut" };
    expect(await store().appendLogs(ws(), "token-2", [line("x")], none)).toEqual(["lost"]);
    expect(await texts()).toEqual([]);
    expect(await store().logBytes(ws())).toBe(0);
  });

  test("I64: knows the bytes of all logs, of each workspace for itself", async () => {
    await makeRuns([1, 2]);
    expect(await store().logBytes(ws())).toBe(0);
    await say([{ ...line("é"), fields: "é" }, line("aa", { run_pos: 2 })]);
    expect(await store().logBytes(ws())).toBe(2 * LINE_BYTES + 2 + 4 + 2);
    const other = await store().workspace("acme", "other");
    expect(await store().logBytes(other.ws)).toBe(0);
  });

  test.runIf(durable)(
    "I64: drops logs of ended runs, the oldest first, and never those of a running one",
    async () => {
      const runs = [1, 2, 3];
      await makeRuns(runs, 2);
      await append(store(), ws(), 1);
      for (const run_pos of runs) {
        await say([0, 1, 0, 1].map((task_key, at) => line(`${at}`, { run_pos, task_key })));
      }
      for (const run_pos of runs) {
        await place().sql(
          `update pawl.run_logs set began_at = '2026-01-0${4 - run_pos}T00:00:00.000Z' where run_pos = ${run_pos}`,
        );
      }
      const bytes = 4 * (LINE_BYTES + 1);
      expect(await prune()).toEqual({ lines: 0, bytes: 0 });
      await endRuns([1, 2], "FAILED");
      // Of the two that have ended, the second began to log first: half of its lines, and then the rest.
      expect(await prune(null, 2)).toEqual({ lines: 2, bytes: bytes / 2 });
      expect((await texts(2, 0)).length + (await texts(2, 1)).length).toBe(2);
      expect(await texts(1, 0)).toHaveLength(2);
      expect(await prune(null, 3)).toEqual({ lines: 3, bytes: bytes / 2 + bytes / 4 });
      expect(await store().logBytes(ws())).toBe(bytes + (3 * bytes) / 4);
      expect(await prune()).toEqual({ lines: 3, bytes: (3 * bytes) / 4 });
      expect(await prune()).toEqual({ lines: 0, bytes: 0 });
      expect(await texts(3, 0)).toEqual(["0", "2"]);
      expect(await store().logBytes(ws())).toBe(bytes);
      expect(await place().sql("select run_pos from pawl.run_logs")).toHaveLength(1);
      // What is dropped is no part of the ledger.
      expect(await store().read(ws(), (reader) => reader.head())).toMatchObject({ pos: 1 });
    },
  );

  test.runIf(durable)(
    "I64: drops by age only what has been silent for long, however long ago it began",
    async () => {
      await makeRuns([1, 2, 3]);
      await say([1, 2, 3].map((run_pos) => line("x", { run_pos })));
      await endRuns([1, 2, 3]);
      const at = (run_pos: number, began: string, last: string) =>
        place().sql(
          `update pawl.run_logs set began_at = '${began}', last_at = '${last}' where run_pos = ${run_pos}`,
        );
      await at(1, "2026-01-01T00:00:00.000Z", LATER);
      await at(2, "2026-01-02T00:00:00.000Z", "2026-01-03T00:00:00.000Z");
      expect(await prune(NOON)).toMatchObject({ lines: 1 });
      expect(await texts(2)).toEqual([]);
      expect(await texts(1)).toEqual(["x"]);
      expect(await texts(3)).toEqual(["x"]);
      expect(await prune(NOON)).toEqual({ lines: 0, bytes: 0 });
    },
  );

  test("I64: drops many small logs in few goes, each of a bounded number of lines and runs", async () => {
    const runs = Array.from({ length: 250 }, (_, index) => index + 1);
    await makeRuns(runs);
    await say(runs.map((run_pos) => line("x", { run_pos })));
    await endRuns(runs);
    expect(await prune(null, 1_000, 2 * (LINE_BYTES + 1))).toMatchObject({ lines: 2 });
    const goes: number[] = [];
    for (;;) {
      const { lines, bytes } = await prune(null, 1_000);
      if (bytes === 0) break;
      goes.push(lines);
    }
    expect(goes).toEqual([100, 100, 48]);
    expect(await store().logBytes(ws())).toBe(0);
  });

  test.runIf(durable)(
    "I64: two servers share the quota of a run, and drop nothing twice",
    async () => {
      await makeRuns([1, 2, 3, 4]);
      await say([1, 2, 3, 4].map((run_pos) => line("first", { run_pos })));
      const other = await place().open();
      try {
        const quota = { runBytesMax: 20 * (LINE_BYTES + 1), notice: "cut" };
        const verdicts = await Promise.all(
          Array.from({ length: 40 }, (_, index) => {
            const server = index % 2 === 0 ? store() : other;
            const runs = index % 4 < 2 ? [1, 2, 3, 4] : [4, 3, 2, 1];
            const lines = runs.map((run_pos) => line("x", { run_pos }));
            return server.appendLogs(ws(), HOLDER, lines, quota);
          }),
        );
        const kept = verdicts.flat().filter((verdict) => verdict === "kept");
        // One that says "first" and four letters more than the others.
        expect(kept).toHaveLength(4 * 18);
        await endRuns([1, 2, 3, 4]);
        const before = await store().logBytes(ws());
        const pruned = await Promise.all(
          Array.from({ length: 20 }, (_, index) =>
            (index % 2 === 0 ? store() : other).pruneLogs(ws(), {
              silentSince: null,
              bytesEnough: 1_000_000,
              linesMax: 7,
            }),
          ),
        );
        const dropped = pruned.reduce((sum, { bytes }) => sum + bytes, 0);
        expect(await store().logBytes(ws())).toBe(before - dropped);
        while ((await prune(null, 7)).bytes > 0);
        expect(await store().logBytes(ws())).toBe(0);
        expect(await place().sql("select 1 from pawl.task_logs")).toEqual([]);
      } finally {
        await other.close();
      }
    },
  );
}
