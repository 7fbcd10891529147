import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import {
  asset,
  daily,
  definePawl,
  dynamicPartitions,
  materializationsOf,
  newFiles,
  rangeTooLarge,
  schedule,
  sensor,
  skip,
  sourceUnavailable,
  staticPartitions,
  sync,
  throttled,
} from "../../src/index.ts";
import { evaluate, fetchRange, tick } from "../../src/testing/index.ts";

const visits = asset("visits", {
  partitions: daily({ start: "2026-01-01" }),
  materialize() {
    throw new Error("What is asked for is not carried out.");
  },
});

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

describe("evaluate", () => {
  const uploads = sensor("uploads", {
    push: true,
    evaluate({ message, request, log }) {
      const { day } = (message?.payload ?? { day: "" }) as { day: string };
      log("An upload came.", { day });
      request({ assets: visits, partition: day, runKey: `upload-${day}` });
    },
  });

  test("shows what a message asks for", async () => {
    const message = { payload: { day: "2026-01-05" } };

    const made = await evaluate(uploads, { assets: [visits], message });

    expect(made).toEqual({
      status: "triggered",
      error: null,
      requests: [
        {
          assets: ["visits"],
          partitions: ["2026-01-05"],
          runKey: expect.stringContaining("upload-2026-01-05") as string,
          outcome: "created",
          error: null,
        },
      ],
      addedPartitions: [],
      cursor: null,
      logs: [{ message: "An upload came.", fields: { day: "2026-01-05" } }],
    });
  });

  test("shows the keys that are added together with the runs, or what is wrong with them", async () => {
    const tenants = asset("tenants", {
      partitions: dynamicPartitions("tenants"),
      materialize: () => undefined,
    });
    const signups = sensor("signups", {
      push: true,
      evaluate({ message, request, addPartitions }) {
        const payload = (message?.payload ?? {}) as { tenant: string; others: string[] };
        const { tenant, others } = payload;
        addPartitions(dynamicPartitions("tenants"), others);
        addPartitions("tenants", [...others, "one more"]);
        request({ assets: tenants, partition: tenant, add: true });
      },
    });
    const message = { payload: { tenant: "acme", others: ["globex"] } };
    const made = await evaluate(signups, { assets: [tenants], message });
    expect(made).toMatchObject({
      status: "triggered",
      requests: [{ partitions: ["acme"], outcome: "created" }],
      addedPartitions: [{ definition: "tenants", keys: ["globex", "one more", "acme"] }],
    });

    const payload = { tenant: "acme", others: ["a\u0001"] };
    const wrong = await evaluate(signups, { assets: [tenants], message: { payload } });
    expect(wrong).toMatchObject({ status: "error", addedPartitions: [], requests: [] });
    expect(wrong.error?.message).toContain("must be text without control characters");
  });

  test("refuses what the server would refuse: a partition that is not there", async () => {
    const message = { payload: { day: "2026-13-05" } };
    const made = await evaluate(uploads, { assets: [visits], message });
    expect(made.status).toBe("error");
    expect(made.requests).toMatchObject([
      { outcome: "refused", error: { class: "PARTITION_INVALID" } },
    ]);
  });

  test("starts at the cursor of the test, and says where the next one starts", async () => {
    const numbers = sensor("numbers", {
      evaluate({ cursor, request, setCursor }) {
        const next = Number(cursor ?? 0) + 1;
        if (next > 2) throw skip("Nothing new.");
        request({ assets: visits, partition: `2026-01-0${next}` });
        setCursor(String(next));
      },
    });
    const project = definePawl({ assets: [visits], sensors: [numbers] });

    expect(await evaluate(project)).toMatchObject({ status: "triggered", cursor: "1" });
    expect(await evaluate(project, { cursor: "1" })).toMatchObject({
      requests: [{ partitions: ["2026-01-02"] }],
      cursor: "2",
    });
    expect(await evaluate(project, { cursor: "2" })).toMatchObject({
      status: "no_new_data",
      requests: [],
      cursor: "2",
    });
  });

  test("tells how a function failed", async () => {
    const broken = sensor("broken", {
      evaluate() {
        throw new Error("The bucket is gone.");
      },
    });
    const made = await evaluate(broken);
    expect(made).toMatchObject({ status: "error", error: { message: "The bucket is gone." } });
  });

  test("looks where a watch looks, or takes the items of the test", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pawl-test-files-"));
    folders.push(folder);
    writeFileSync(join(folder, "2026-01-03.csv"), "1");
    const old = new Date("2026-01-04T00:00:00Z");
    utimesSync(join(folder, "2026-01-03.csv"), old, old);
    const files = sensor("files", {
      watch: newFiles({ folder, pattern: "*.csv" }),
      evaluate({ items, request }) {
        for (const { stem } of items) request({ assets: visits, partition: stem });
      },
    });

    const found = await evaluate(files, { assets: [visits], folder });
    expect(found.requests).toMatchObject([{ partitions: ["2026-01-03"] }]);
    const items = [{ stem: "2026-01-04" }, { stem: "2026-01-05" }];
    const given = await evaluate(files, { assets: [visits], folder, items });
    expect(given.requests.map(({ partitions }) => partitions)).toEqual([
      ["2026-01-04"],
      ["2026-01-05"],
    ]);
  });

  test("refuses items for a sensor that the server evaluates, and an unnamed one of several", async () => {
    const made = sensor("made", {
      watch: materializationsOf("visits"),
      target: { assets: visits, partition: "{partition_key}" },
    });
    const items = [{ partition_key: "2026-01-01" }];
    await expect(evaluate(made, { assets: [visits], items })).rejects.toMatchObject({
      code: "INPUT_INVALID",
    });
    const project = definePawl({ assets: [visits], sensors: [uploads, made] });
    await expect(evaluate(project)).rejects.toThrow("the project has uploads, made");
    await expect(evaluate(uploads, { assets: [visits] })).rejects.toMatchObject({
      code: "INPUT_INVALID",
    });
  });
});

describe("tick", () => {
  const nightly = schedule("nightly", {
    cron: "0 2 * * *",
    timezone: "Europe/Berlin",
    assets: visits,
    selection: "previous",
  });

  test("shows what a time of a schedule asks for", async () => {
    const made = await tick(nightly, { assets: [visits], at: "2026-07-02T00:00:00Z" });
    expect(made).toEqual({
      status: "triggered",
      reason: null,
      error: null,
      assets: ["visits"],
      partitions: ["2026-07-01"],
      partitionCount: 1,
    });
  });

  test("refuses a time that the schedule does not have, and tells the next one", async () => {
    const project = definePawl({ assets: [visits], schedules: [nightly] });
    await expect(tick(project, { at: "2026-07-02T02:00:00Z" })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message:
        "at: the schedule nightly has no time at 2026-07-02T02:00:00.000Z. " +
        "The next one is 2026-07-03T00:00:00.000Z.",
    });
    await expect(tick(project, { at: "tomorrow" })).rejects.toThrow(
      'at: expected a Date or a text such as 2026-01-05T06:00:00Z, got "tomorrow".',
    );
  });

  test("tells that there is nothing to ask for", async () => {
    const early = schedule("early", {
      cron: "@daily",
      assets: visits,
      selection: { offset: -400 },
    });
    const made = await tick(early, { assets: [visits], at: "2026-02-01T00:00:00Z" });
    expect(made.status).not.toBe("triggered");
    expect(made.reason ?? made.error).not.toBeNull();
  });
});

describe("fetchRange", () => {
  test("fetches as a worker does, whatever the source says, without its waits", async () => {
    const answers = [
      throttled("Not so fast.", { retryAfterMs: 60_000 }),
      rangeTooLarge("Not so many.", { suggestedSize: 40 }),
      sourceUnavailable("Not now."),
    ];
    const copied = new Set<number>();
    const numbers = sync("numbers", {
      from: 1,
      async fetch({ from, to }, { log, progressTo }) {
        const answer = answers.shift();
        if (answer !== undefined) throw answer;
        log("fetching", { from });
        for (let number = from; number <= to; number++) copied.add(number);
        await progressTo(to);
        return { rows: to - from + 1 };
      },
      head: async () => 1_000,
    });

    const made = await fetchRange(numbers, { target: { of: "one" }, from: 1, to: 100 });

    expect(made).toMatchObject({ status: "COMPLETE", syncedTo: 100 });
    expect(copied.size).toBe(100);
    expect(made.calls.slice(0, 3).map(({ error }) => error)).toEqual([
      "Not so fast.",
      "Not so many.",
      "Not now.",
    ]);
    const stored = made.calls.slice(3);
    expect(stored.map(({ progress, to }) => progress.at(-1) === to)).not.toContain(false);
    expect(stored.reduce((sum, { rows }) => sum + (rows ?? 0), 0)).toBe(100);
    expect(made.logs[0]).toMatchObject({ message: "fetching" });
  });

  test("gives up after a few attempts", async () => {
    const numbers = sync("numbers", {
      from: 1,
      to: 10,
      pool: "api",
      async fetch() {
        throw new Error("There is no such table.");
      },
    });
    const target = { of: "one" };

    const made = await fetchRange(numbers, { target, from: 1, to: 10, maxAttempts: 2 });

    expect(made.status).not.toBe("COMPLETE");
    expect(made.error?.message).toContain("There is no such table.");
  });
});

test("a sensor without a function is evaluated by its target", async () => {
  const words = asset("words", {
    partitions: staticPartitions(["a"]),
    materialize: () => undefined,
  });
  const push = sensor("push", {
    push: true,
    target: { assets: words, partition: "{payload.word}" },
  });
  const made = await evaluate(push, { assets: [words], message: { payload: { word: "a" } } });
  expect(made.requests).toMatchObject([{ partitions: ["a"], outcome: "created" }]);
});
