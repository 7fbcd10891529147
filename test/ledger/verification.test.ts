import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PawlError } from "../../src/core/errors.ts";
import { Engine } from "../../src/engine/engine.ts";
import { rebuildRows } from "../../src/engine/refold.ts";
import { stateHashes, verifyLedger, verifyTail } from "../../src/engine/verify-ledger.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store, Workspace } from "../../src/store/store.ts";
import { decideEverything } from "./decide-everything.ts";
import { steadyEnvironment } from "./steady-environment.ts";

let folder: string;
let store: Store;
let workspace: Workspace;

const path = (): string => join(folder, "pawl.db");

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-verify-"));
  store = await openSqliteStore({ path: path(), clock: Date.now });
  await decideEverything(store, 11);
  workspace = await store.workspace("t", "w");
});

afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Writes behind Pawl's back, past the triggers that keep the ledger append-only. */
function tamper(...statements: string[]): void {
  const database = new Database(path());
  for (const name of ["events_refuse_update", "events_refuse_delete"]) {
    database.exec(`drop trigger ${name}`);
  }
  for (const statement of statements) database.exec(statement);
  database.close();
}

async function failureOf(promise: Promise<unknown>): Promise<PawlError> {
  const error: unknown = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error instanceof PawlError) return error;
  throw new Error(`expected a PawlError, got ${String(error)}`);
}

describe("verifyLedger", () => {
  test("finds a ledger as it was written in order", async () => {
    const { pos } = await store.read(workspace.ws, (reader) => reader.head());

    expect(await verifyLedger(store, workspace)).toMatchObject({ events: pos });
    expect(await store.verifiedPos(workspace.ws)).toBe(pos);
  });

  test.each([
    ["a changed body", "update events set data = data || ' ' where pos = 6", 6],
    [
      "a changed time",
      "update events set occurred_at = '2020-01-01T00:00:00.000Z' where pos = 9",
      9,
    ],
    ["a changed actor", "update events set actor = '{}' where pos = 2", 2],
    ["a missing event", "delete from events where pos = 20", 20],
    ["another subject", "update events set subject_pos = 77 where pos = 30", 30],
    ["a cut-off end", "delete from events where pos > 50", 51],
  ])("I8: finds %s and names the first bad position", async (_what, statement, pos) => {
    tamper(statement);

    const failure = await failureOf(verifyLedger(store, workspace));
    expect(failure.code).toBe("LEDGER_CORRUPT");
    expect(failure.details).toEqual({ pos });
  });

  test("I8: finds two events that changed places", async () => {
    tamper(
      "update events set pos = -1 where pos = 12",
      "update events set pos = 12 where pos = 13",
      "update events set pos = 13 where pos = -1",
    );

    expect((await failureOf(verifyLedger(store, workspace))).details).toEqual({ pos: 12 });
  });

  test("I12: finds rows that are not what the ledger says", async () => {
    tamper("update partition_status set last_attempt_run_id = 'another' where partition_key = '1'");

    const failure = await failureOf(verifyLedger(store, workspace));
    expect(failure.details).toEqual({ table: "partition_status" });
  });

  test("I8: a start checks what came since the last verification, and refuses what is damaged", async () => {
    await store.saveVerifiedPos(workspace.ws, 40);
    tamper("update events set data = '{}' where pos in (8, 60)");

    expect((await failureOf(verifyTail(store, workspace))).details).toEqual({ pos: 60 });
  });
});

describe("rebuildRows", () => {
  test.each([1, 7, 100, 100_000])(
    "I13 I12: gives the same bytes in batches of %i events",
    async (batch) => {
      const before = await store.read(workspace.ws, stateHashes);
      tamper(
        "delete from tasks",
        "delete from chunks where chunk_index = 1",
        "delete from runs",
        "delete from schedules",
        "delete from schedule_ticks where manual = 0",
        "delete from sensors where mode = 'push'",
        "delete from sensor_messages",
      );

      await rebuildRows(store, workspace, { batch });

      expect(await store.read(workspace.ws, stateHashes)).toEqual(before);
    },
  );

  test("is done at a start when an older fold wrote the rows", async () => {
    const before = await store.read(workspace.ws, stateHashes);
    tamper("delete from run_keys", "update heads set fold_version = 0");

    await openEngine("w");

    expect(await store.read(workspace.ws, stateHashes)).toEqual(before);
  });
});

const openEngine = (workspaceId: string): Promise<Engine> =>
  Engine.open({ store, tenantId: "t", workspaceId, environment: steadyEnvironment(1) });

/** Adds an event of a later version at the end of the ledger. */
function appendUnknown(data: string): void {
  tamper(
    `insert into events select ws, pos + 1, v, 'id', 'MoonPhaseChanged', 0, 'moon', occurred_at,
       actor, null, '${data}', hash, 'x' from events order by pos desc limit 1`,
    "update heads set pos = pos + 1, hash = 'x', fold_version = 0",
  );
}

describe("events of other versions", () => {
  test("I15: an unknown event that says it is informational is passed over", async () => {
    const before = await store.read(workspace.ws, stateHashes);
    appendUnknown('{"informational":true}');

    await rebuildRows(store, workspace);

    expect(await store.read(workspace.ws, stateHashes)).toEqual(before);
  });

  test("I15 I17: any other unknown event stops its workspace, with the reason, and no other", async () => {
    appendUnknown('{"phase":"full"}');

    const failure = await failureOf(openEngine("w"));
    expect(failure.code).toBe("LEDGER_NEWER");
    expect(failure.message).toContain("MoonPhaseChanged");
    expect((await openEngine("other")).workspace.workspace_id).toBe("other");
  });

  test("I15: rows of a newer fold may be read, but not appended to", async () => {
    tamper("update heads set fold_version = 99");

    expect((await failureOf(openEngine("w"))).code).toBe("LEDGER_NEWER");
    expect((await store.read(workspace.ws, (reader) => reader.head())).fold_version).toBe(99);
  });
});
