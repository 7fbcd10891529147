import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PawlError } from "../../src/kernel/errors.ts";
import type { SplitStep } from "../../src/work/shard/step-protocol.ts";
import type { Shard } from "../../src/shards/shard.ts";
import { enterWrite, leave } from "../../src/shards/sqlite/enter.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import { SPLIT_LIMITS } from "../../src/worker/steps/split/work.ts";
import { runSplitStep } from "../../src/worker/steps/split/split-steps.ts";

/** A split as the ledger has it. */
type Plan = {
  readonly id: string;
  readonly source: string;
  readonly target: string;
  readonly epoch: number;
  cutover: number | null;
  rollback: number | null;
};

const TENANT = "t";
const TO_REVERSIBLE = ["arm", "copy", "tail", "cutover"] as const;
const TO_END = [...TO_REVERSIBLE, "reverse", "finish"] as const;

let folder: string;
let shards: Record<string, Shard>;
let files: Record<string, string>;
let version: number;
let token: number;
/** What happens before a call of a shard's method, once. */
let before: { method: keyof Shard; act: () => void | Promise<void> } | null;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-return-"));
  files = {};
  shards = {};
  for (const name of ["a", "b", "c"]) {
    const file = join(folder, `${name}.db`);
    const db = new Database(file);
    db.pragma("journal_mode = wal");
    db.exec("create table notes (id text primary key, tenant text not null, body text)");
    db.close();
    files[name] = file;
    shards[name] = await openSqliteShard({ file });
  }
  version = 1;
  token = 0;
  before = null;
});

afterEach(async () => {
  for (const shard of Object.values(shards)) await shard.close();
  rmSync(folder, { recursive: true, force: true });
});

function on<T>(name: string, act: (db: Database.Database) => T): T {
  const db = new Database(files[name] ?? "");
  try {
    return act(db);
  } finally {
    db.close();
  }
}

/** Writes a row of the tenant as a router that knows an epoch would. */
function write(name: string, epoch: number, id: string): void {
  on(name, (db) =>
    db
      .transaction(() => {
        enterWrite(db, TENANT, epoch);
        db.prepare("insert into notes values (?, ?, 'x')").run(id, TENANT);
        leave(db);
      })
      .immediate(),
  );
}

function idsOn(name: string): unknown[] {
  return on(name, (db) =>
    db.prepare("select id from notes where tenant = ? order by id").pluck().all(TENANT),
  );
}

function planned(id: string, source: string, target: string): Plan {
  return { id, source, target, epoch: version, cutover: null, rollback: null };
}

async function run(plan: Plan, step: SplitStep, limits = SPLIT_LIMITS): Promise<void> {
  token += 1;
  let now = 0;
  let words = 0;
  await runSplitStep(
    {
      work: "split",
      split_id: plan.id,
      step,
      n: token,
      source: plan.source,
      target: plan.target,
      tenants: [TENANT],
      tables: [{ table: "notes", shard_by: "tenant" }],
      epochs: [plan.epoch],
      routing_version_cutover: plan.cutover,
      routing_version_rollback: plan.rollback,
      lag_limit_ms: 1_000,
      fence_wait_ms: 1_000,
      fence_hold_ms: 10_000,
      ddl: null,
    },
    {
      shard: async (name) => watched(name),
      token,
      signal: new AbortController().signal,
      now: () => (now += 1),
      pause: async (ms) => {
        now += ms;
      },
      say: async (_, record) => {
        if (record === "commit") {
          if (step === "cutover") plan.cutover ??= version += 1;
          else plan.rollback ??= version += 1;
        }
        words += 1;
        const stop = record === "caught_up" || (step === "reverse" && words > 3);
        const routing_version = step === "cutback" ? plan.rollback : plan.cutover;
        return { status: "current", stop, routing_version };
      },
    },
    limits,
  );
}

async function runAll(plan: Plan, steps: readonly SplitStep[]): Promise<void> {
  for (const step of steps) await run(plan, step);
}

function watched(name: string): Shard {
  const shard = shards[name];
  if (shard === undefined) throw new Error(`There is no shard ${name}.`);
  return new Proxy(shard, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== "function") return value;
      return async (...given: unknown[]) => {
        const due = before?.method === key ? before : null;
        if (due !== null) before = null;
        await due?.act();
        return value.apply(target, given) as unknown;
      };
    },
  });
}

async function codeOf(running: Promise<unknown>): Promise<string> {
  const failure = await running.then(
    () => null,
    (error: unknown) => error,
  );
  return failure instanceof PawlError ? failure.code : String(failure);
}

/** The code that a write is refused with; null when it is taken. */
function refusalOf(name: string, epoch: number): string | null {
  try {
    write(name, epoch, `stray-${epoch}`);
    return null;
  } catch (error) {
    return error instanceof PawlError ? error.code : String(error);
  }
}

describe("a tenant that is split off again", () => {
  test("I56: keeps its rows when those of an earlier split are removed", async () => {
    const first = planned("first", "a", "b");
    await runAll(first, TO_END);
    write("b", version, "one");
    // Nothing was on a, so nothing keeps the tenant from coming back there.
    await runAll(planned("second", "b", "a"), TO_END);
    const third = planned("third", "a", "c");
    await runAll(third, TO_REVERSIBLE);
    expect(await codeOf(run(first, "remove"))).toBe("STATE_ILLEGAL");
    await runAll(third, ["cutback", "discard"]);
    expect(idsOn("a")).toEqual(["one"]);
  });

  test("I56: keeps its rows when it comes back while the rest of a removal sleeps", async () => {
    const first = planned("first", "a", "b");
    write("a", version, "one");
    await runAll(first, TO_END);
    const second = planned("second", "b", "a");
    // The worker sleeps before it removes a row, which is gone and back, byte for byte, by then.
    before = {
      method: "remove",
      act: async () => {
        on("a", (db) => db.exec("delete from notes"));
        await runAll(second, TO_REVERSIBLE);
      },
    };
    const code = await codeOf(run(first, "remove"));
    expect(second.cutover).not.toBeNull();
    expect(idsOn("a")).toEqual(["one"]);
    expect(code).toBe("STATE_ILLEGAL");
  });

  test("I53: is refused where it was before, also after a split back to there is rolled back", async () => {
    write("a", 1, "one");
    const first = planned("first", "a", "b");
    await runAll(first, [...TO_END, "remove"]);
    const second = planned("second", "b", "a");
    await runAll(second, ["arm", "copy", "discard"]);
    expect(refusalOf("a", 1)).toBe("EPOCH_STALE");
    expect(await shards["a"]?.fences([TENANT])).toMatchObject([
      { state: "moved", epoch: first.cutover, shard: "b" },
    ]);
    write("b", version, "two");
    expect(idsOn("a")).toEqual([]);
  });

  test("I53: is refused where it was before, also when a split back to there was never armed", async () => {
    write("a", 1, "one");
    await runAll(planned("first", "a", "b"), TO_END);
    const second = planned("second", "b", "a");
    // Its old rows are still there.
    expect(await codeOf(run(second, "arm"))).toBe("ROWS_CONFLICT");
    await run(second, "discard");
    expect(refusalOf("a", 1)).toBe("EPOCH_STALE");
    expect(idsOn("a")).toEqual(["one"]);
    write("b", version, "two");
  });

  test("I56: leaves no fence where it never was", async () => {
    const plan = planned("first", "a", "b");
    await runAll(plan, ["arm", "arm", "copy", "discard"]);
    expect(await shards["b"]?.fences([TENANT])).toEqual([]);
  });
});

describe("a cutover", () => {
  test("I55: takes over what got in while the shard's clock was wrong", async () => {
    const plan = planned("first", "a", "b");
    write("a", 1, "one");
    await runAll(plan, ["arm", "copy", "tail"]);
    const setClock = (ms: number): unknown =>
      on("a", (db) => db.prepare("update _pawl_fences set until = until + ?").run(ms));
    before = {
      method: "holdFences",
      act: () => {
        setClock(-3_600_000);
        write("a", 1, "two");
        setClock(3_600_000);
      },
    };
    await run(plan, "cutover");
    expect(plan.cutover).not.toBeNull();
    expect(idsOn("b")).toEqual(["one", "two"]);
  });
});

describe("a split that takes long", () => {
  /** Writes rows of another tenant and says how many changes the shard keeps then. */
  const busy = (name: string, id: string): void => {
    on(name, (db) => db.prepare("insert into notes values (?, 'other', 'x')").run(id));
  };
  const kept = (name: string): unknown =>
    on(name, (db) => db.prepare("select count(*) from _pawl_changes").pluck().get());

  test("keeps no changes of other tenants, on neither shard, in no phase", async () => {
    const plan = planned("first", "a", "b");
    write("a", 1, "one");
    write("a", 1, "two");
    await run(plan, "arm");
    const often = { ...SPLIT_LIMITS, sayEveryMs: 0 };
    for (const step of ["copy", "tail", "cutover", "reverse"] as const) {
      busy("a", `a ${step}`);
      busy("b", `b ${step}`);
      expect([kept("a"), kept("b")]).toEqual([1, 1]);
      const small = { ...often, chunkRows: 1, chunkRowsMin: 1, chunkRowsMax: 1 };
      await run(plan, step, small);
      if (step !== "cutover") expect([kept("a"), kept("b")]).toEqual([0, 0]);
      else await run(plan, "reverse", small);
    }
    await runAll(plan, ["cutback", "discard"]);
    expect(idsOn("a")).toEqual(["one", "two"]);
  });
});

describe("a split between two names of one file", () => {
  test("is refused, and can be rolled back", async () => {
    const plan = planned("first", "a", "again");
    files["again"] = files["a"] ?? "";
    shards["again"] = await openSqliteShard({ file: files["again"] });
    expect(await codeOf(run(plan, "arm"))).toBe("INPUT_INVALID");
    await run(plan, "discard");
    write("a", 1, "one");
    expect(idsOn("a")).toEqual(["one"]);
  });
});

describe("a target that was restored from a backup", () => {
  test("I54: is found out, as the source has forgotten what it lacks", async () => {
    const plan = planned("first", "a", "b");
    write("a", 1, "one");
    await runAll(plan, ["arm", "copy", "tail"]);
    const backup = join(folder, "backup.db");
    on("b", (db) => db.exec(`vacuum into '${backup}'`));
    write("a", 1, "two");
    await run(plan, "tail");
    // What a tail says once a second.
    await run(plan, "tail", { ...SPLIT_LIMITS, sayEveryMs: 0 });
    await shards["b"]?.close();
    const file = join(folder, "restored.db");
    copyFileSync(backup, file);
    files["b"] = file;
    shards["b"] = await openSqliteShard({ file });
    expect(idsOn("b")).toEqual(["one"]);
    expect(await codeOf(run(plan, "cutover"))).toBe("VERIFICATION_FAILED");
    expect(plan.cutover).toBeNull();
    await run(plan, "discard");
    expect(idsOn("a")).toEqual(["one", "two"]);
  });
});
