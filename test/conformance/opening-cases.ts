import { spawn } from "node:child_process";
import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { addMs, type Instant, msBetween } from "../../src/kernel/instant.ts";
import { SENSOR_MESSAGES } from "../../src/work/sensor/rows.ts";
import type { Store } from "../../src/store/store.ts";
import { append, changesOf, commit, message } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const HOLD_TRANSACTION = fileURLToPath(new URL("hold-transaction.ts", import.meta.url));

/** What happens to data when stores come, go and are killed. */
export function openingCases({ durable, place, store, ws }: Suite): void {
  const opened = async <Result>(body: (other: Store) => Promise<Result>): Promise<Result> => {
    const other = await place().open();
    try {
      return await body(other);
    } finally {
      await other.close();
    }
  };

  test.runIf(durable)("finds everything again", async () => {
    await append(store(), ws(), 2);
    await commit(store(), ws(), {
      changes: [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })],
    });
    await opened(async (other) => {
      expect(await other.workspace("acme", "main")).toMatchObject({ ws: ws() });
      await other.read(ws(), async (reader) => {
        expect(await reader.head()).toMatchObject({ pos: 2 });
        expect(await reader.load(SENSOR_MESSAGES, [["sales", "2026-01-01"]])).toEqual([
          message({}),
        ]);
      });
    });
  });

  const inAnHour = async (from: Store): Promise<Instant> => addMs(await from.now(), 3_600_000);
  const transactedAt = (on: Store): Promise<Instant> => on.transact(ws(), async ({ now }) => now);

  test("I18: no transaction is before the newest event, and time goes on from there", async () => {
    const later = await inAnHour(store());
    await append(store(), ws(), 1, { occurred_at: later });

    expect((await transactedAt(store())) >= later).toBe(true);
    expect((await store().now()) >= later).toBe(true);
  });

  test("I42: leases and probes are of the same time as transactions", async () => {
    const later = await inAnHour(store());
    await append(store(), ws(), 1, { occurred_at: later });
    await transactedAt(store());
    const granted_at = addMs(later, -3_600_000);
    const lease = { lease_id: "l", worker_id: "w", granted_at, expires_at: granted_at, tasks: [] };
    await commit(store(), ws(), { leasesGranted: [lease] });
    expect(await store().renewLeases(ws(), ["l"], 15_000)).toEqual(["l"]);
    const [renewed] = await store().read(ws(), (reader) => reader.leases(1));
    expect(msBetween(later, renewed?.expires_at ?? "")).toBeGreaterThanOrEqual(14_000);

    const probe = {
      probe_id: "p",
      kind: "poll",
      subject: "s",
      due_at: later,
      value: null,
    } as const;
    await store().addProbes(ws(), [probe]);
    const claim = {
      kinds: ["poll"],
      subjects: null,
      limit: 1,
      ttlMs: 15_000,
      holder: null,
    } as const;
    const [leased] = await store().leaseProbes(ws(), claim);
    expect(leased?.probe_id).toBe("p");
    expect(msBetween(later, leased?.leased_until ?? "")).toBeGreaterThanOrEqual(14_000);
    const again = { ...claim, subjects: ["s"] };
    expect(await store().leaseProbes(ws(), again)).toEqual([]);
    const fence = { probe_id: "p", attempt: 1, leased_by: null };
    expect(await store().renewProbes(ws(), [fence], 60_000)).toEqual([true]);
    const [kept] = await store().read(ws(), (reader) => reader.probes(["p"]));
    expect(msBetween(later, kept?.leased_until ?? "")).toBeGreaterThanOrEqual(59_000);
  });

  test.runIf(durable)(
    "I18: a start under a clock that was set back goes on from what was seen",
    async () => {
      const later = await inAnHour(store());
      await place().sql(
        `insert into pawl.clock (id, seen_at) values (1, '${later}')
       on conflict (id) do update set seen_at = excluded.seen_at`,
      );
      await opened(async (other) => {
        expect((await other.now()) >= later).toBe(true);
        expect((await transactedAt(other)) >= later).toBe(true);
      });
    },
  );

  test.runIf(durable)("I18: the time is noted with what is written", async () => {
    const before = await store().now();
    await store().saveVerified(ws(), { pos: 0, hash: "", types: "", informational: 0 });
    await store().now();
    const [row] = await place().sql("select seen_at from pawl.clock");
    expect(msBetween(String(row?.[0]), before)).toBeLessThan(60_000);
  });

  // Node aborts the whole process when a thread is terminated while it loads a native module.
  test.runIf(durable)("I65: closes while its threads start, and lets them end", async () => {
    const threads: { online: Promise<unknown>; exit: Promise<unknown[]> }[] = [];
    const watch = (thread: Worker): unknown =>
      threads.push({ online: once(thread, "online"), exit: once(thread, "exit") });
    // On a slow machine this one would start its own thread meanwhile, and keep it.
    await store().close();
    process.on("worker", watch);
    try {
      await opened(async (other) => {
        // A few at a time: PostgreSQL ends a transaction that a busy machine keeps waiting.
        for (let written = 0; written < 30_000 && threads.length === 0; written += 2_000) {
          await append(other, ws(), 2_000);
          await nextTurn();
        }
        await Promise.all(threads.map(({ online }) => online));
      });
      const codes = await Promise.all(threads.map(({ exit }) => exit));
      expect(codes.filter(([code]) => code !== 0)).toEqual([]);
    } finally {
      process.off("worker", watch);
    }
  });

  test.runIf(durable)("I4: a transaction of a killed process leaves nothing", async () => {
    await append(store(), ws(), 1);
    const child = spawn(process.execPath, [HOLD_TRANSACTION, ...place().address], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said] = (await once(child.stdout, "data")) as [Buffer];
    expect(said.toString()).toContain("written up to 51");
    child.kill("SIGKILL");
    await once(child, "exit");

    expect(await append(store(), ws(), 1)).toBe(2);
    await opened((other) =>
      other.read(ws(), async (reader) => {
        expect(await reader.head()).toMatchObject({ pos: 2 });
        expect(await reader.countBy(SENSOR_MESSAGES, [], [])).toEqual([{ values: {}, count: 0 }]);
      }),
    );
  });

  test.runIf(durable)(
    "I52: applies each schema step once, and keeps the ledger's bytes",
    async () => {
      await append(store(), ws(), 3);
      const bytes = "select * from pawl.events order by pos";
      const before = await place().sql(bytes);
      const steps = "select step, applied_at from pawl.schema_steps order by step";
      const applied = await place().sql(steps);
      expect(applied.length).toBeGreaterThan(0);
      await opened(async () => undefined);
      await opened(async () => undefined);
      expect(await place().sql(steps)).toEqual(applied);
      expect(await place().sql(bytes)).toEqual(before);
    },
  );

  test.runIf(durable)("I52: refuses a schema that is newer than this version knows", async () => {
    await place().sql(
      "insert into pawl.schema_steps (step, name, applied_at) values (9999, 'x', '2026-01-01')",
    );
    await expect(place().open()).rejects.toMatchObject({ code: "LEDGER_NEWER" });
  });
}
