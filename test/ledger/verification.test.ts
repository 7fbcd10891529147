import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addPartitionKeys } from "../../src/work/definition/partition-keys.ts";
import { PawlError, present } from "../../src/kernel/errors.ts";
import { hashedText } from "../../src/work/envelope.ts";
import type { BackfillRow } from "../../src/work/backfill/rows.ts";
import type { RunRow } from "../../src/work/run/rows.ts";
import type { AnyTable } from "../../src/kernel/table.ts";
import { TABLES } from "../../src/work/tables.ts";
import { backfillAsOf, bytesOf, rebuildRows, refoldRun } from "../../src/engine/ledger/refold.ts";
import { Engine } from "../../src/engine/engine.ts";
import { machineEnvironment, nodeHash } from "../../src/engine/config.ts";
import { LedgerWatch } from "../../src/engine/ledger/watch.ts";
import {
  knownTypes,
  stateHashes,
  verifyLedger,
  verifyTail,
} from "../../src/engine/ledger/verify.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Reader, Store, Workspace } from "../../src/store/store.ts";
import type { EventFilter } from "../../src/work/envelope.ts";
import { decideEverything } from "./decide-everything.ts";
import { steadyEnvironment } from "./steady-environment.ts";

let folder: string;
let store: Store;
let workspace: Workspace;

const path = (): string => join(folder, "pawl.db");

const template = mkdtempSync(join(tmpdir(), "pawl-verify-template-"));

beforeAll(async () => {
  const made = await openSqliteStore({ path: join(template, "pawl.db"), clock: Date.now });
  await decideEverything(made, 11);
  await made.close();
});

afterAll(() => rmSync(template, { recursive: true, force: true }));

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-verify-"));
  cpSync(template, folder, { recursive: true });
  store = await openSqliteStore({ path: path(), clock: Date.now });
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
    database.exec(`drop trigger if exists ${name}`);
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

    expect(await verifyLedger(store, workspace)).toMatchObject({ events: pos, accepted: 0 });
    expect((await store.ledgerNotes(workspace.ws)).verified).toMatchObject({ pos });
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
    tamper("update partition_blocks set failing = failing + 1 where asset_key = 'orders'");

    const failure = await failureOf(verifyLedger(store, workspace));
    expect(failure.details).toEqual({ table: "partition_blocks" });
  });

  test("I8: a start checks what came since the last verification, and marks what is damaged", async () => {
    await noteVerified(40);
    tamper("update events set data = '{}' where pos in (8, 60)");

    expect(await verifyTail(store, workspace)).toMatchObject({ pos: 60 });
    expect((await store.ledgerNotes(workspace.ws)).verified).toMatchObject({ pos: 40 });
  });

  test("I8: a start notices that what was verified last is not there any more", async () => {
    await noteVerified(40);
    const [stale] = await eventsAt(41);
    tamper(`update events set hash = '${stale?.hash}' where pos = 40`);

    expect(await verifyTail(store, workspace)).toMatchObject({ pos: 40 });
  });

  test("I8: finds an event beyond the head", async () => {
    const { pos } = await store.read(workspace.ws, (reader) => reader.head());
    tamper(
      `insert into events select ws, pos + 1, v, 'id', type, subject_pos, 'k', occurred_at, actor,
         null, data, hash, 'x' from events order by pos desc limit 1`,
    );

    expect((await failureOf(verifyLedger(store, workspace))).details).toEqual({ pos: pos + 1 });
    await store.markDamage(workspace.ws, null);
    expect(await verifyTail(store, workspace)).toMatchObject({ pos: pos + 1 });
  });
});

const eventsAt = (pos: number) =>
  store.read(workspace.ws, (reader) => reader.events({ after: pos - 1, limit: 1 }));

/** Notes the ledger as verified up to a position. */
async function noteVerified(pos: number): Promise<void> {
  const hash = (await eventsAt(pos))[0]?.hash ?? "";
  await store.saveVerified(workspace.ws, {
    pos,
    hash,
    types: knownTypes(nodeHash),
    informational: 0,
  });
}

describe("a damaged ledger", () => {
  /** An engine that tries again by itself, and says nothing. */
  const openRealEngine = (): Promise<Engine> => {
    const environment = machineEnvironment(() => undefined);
    return Engine.open({ store, tenantId: "t", workspaceId: "w", environment });
  };
  const submit = async (engine: Engine): Promise<unknown> =>
    engine.submit(addPartitionKeys({ asset_key: "customers", request_id: "new", keys: ["new"] }), {
      actor: { principal: "anna", token_id: null },
      correlationId: "c",
    });
  const headPos = async () => (await store.read(workspace.ws, (reader) => reader.head())).pos;

  test("I85: is served for reading, and not appended to, once a check has failed", async () => {
    // Noted as checked: what a start reads anew is in order.
    await verifyLedger(store, workspace);
    const engine = await openRealEngine();
    await submit(engine);
    const before = await headPos();
    tamper("update events set data = data || ' ' where pos = 6");
    await failureOf(verifyLedger(store, workspace));

    const refused = await failureOf(
      engine.submit(
        addPartitionKeys({ asset_key: "customers", request_id: "newer", keys: ["newer"] }),
        { actor: { principal: "anna", token_id: null }, correlationId: "c" },
      ),
    );
    expect(refused.code).toBe("LEDGER_CORRUPT");
    expect(refused.message).toContain("t/w is damaged at position 6");
    expect(await headPos()).toBe(before);
    expect(await engine.read((reader) => reader.events({ after: 0, limit: 3 }))).toHaveLength(3);

    // Also for a process that starts later.
    await engine.stop();
    expect(await verifyTail(store, workspace)).toMatchObject({ pos: 6 });
    const later = await openRealEngine();
    expect((await failureOf(submit(later))).code).toBe("LEDGER_CORRUPT");
    expect(await headPos()).toBe(before);
  });

  test("I85: goes on once a person has accepted it, and exactly that", async () => {
    const { hash } = (await eventsAt(6))[0] ?? { hash: "" };
    tamper(
      "update events set data = data || ' ' where pos = 6",
      "delete from events where pos = 20",
    );
    await failureOf(verifyLedger(store, workspace));

    // Whatever the rest of it says: the fold may not bear that an event is missing.
    await verifyLedger(store, workspace, { accept: true }).catch(() => undefined);
    const { accepted } = await store.ledgerNotes(workspace.ws);
    expect(accepted.map(({ pos }) => pos)).toEqual([6, 20]);
    await store.markDamage(workspace.ws, null);
    expect(await verifyTail(store, workspace)).toBeNull();
    await submit(await openRealEngine());

    tamper(`update events set hash = '${hash}', data = '{"other":1}' where pos = 6`);
    expect((await failureOf(verifyLedger(store, workspace))).details).toEqual({ pos: 6 });
  });

  test("I85: an accepted ledger whose rows are folded anew is in order again", async () => {
    tamper("update events set actor = '{}' where pos = 2");
    await failureOf(verifyLedger(store, workspace));
    expect((await failureOf(rebuildRows(store, workspace))).code).toBe("LEDGER_CORRUPT");

    expect(await verifyLedger(store, workspace, { accept: true })).toMatchObject({ accepted: 1 });
    expect((await store.ledgerNotes(workspace.ws)).damage).toBeNull();
    await submit(await openRealEngine());
    expect(await verifyLedger(store, workspace)).toMatchObject({ accepted: 1 });
  });

  test.each(["{}", "null", "{"])("I85: says that an accepted %s cannot be folded", async (data) => {
    for (const pos of [2, 6, 20]) tamper(`update events set data = '${data}' where pos = ${pos}`);
    const failure = await failureOf(verifyLedger(store, workspace, { accept: true }));
    expect(failure.code).toBe("LEDGER_CORRUPT");
    expect((await store.ledgerNotes(workspace.ws)).damage).not.toBeNull();
  });

  test("I85: says that the rows of an accepted event cannot be written", async () => {
    const first = "(select min(pos) from events where type = 'RunRequested')";
    tamper(`update events set data = json_remove(data, '$.priority') where pos = ${first}`);
    const failure = await failureOf(verifyLedger(store, workspace, { accept: true }));
    expect(failure.code).toBe("LEDGER_CORRUPT");
    expect((await store.ledgerNotes(workspace.ws)).damage).not.toBeNull();
  });

  test("I85: rows that differ are marked too, and the mark goes when they are folded anew", async () => {
    tamper("update partition_blocks set failing = failing + 1 where asset_key = 'orders'");
    await failureOf(verifyLedger(store, workspace, { accept: true }));
    const engine = await openRealEngine();
    expect((await failureOf(submit(engine))).details).toMatchObject({ table: "partition_blocks" });

    await rebuildRows(store, workspace);
    await submit(engine);
    await verifyLedger(store, workspace);
  });

  test("I85: an engine that stops notes nothing as checked", async () => {
    const engine = await openRealEngine();
    await submit(engine);
    await engine.stop();

    expect((await store.ledgerNotes(workspace.ws)).verified).toBeNull();
  });
});

describe("the watch over a ledger", () => {
  const said: string[] = [];
  let elapsedMs = 0;
  const watch = (): LedgerWatch =>
    new LedgerWatch({
      store,
      workspace,
      elapsedMs: () => elapsedMs,
      warn: (fields) => said.push(JSON.stringify(fields)),
      error: (fields) => said.push(JSON.stringify(fields)),
    });

  beforeEach(() => {
    said.length = 0;
    elapsedMs = 0;
  });

  test("I85: notes what it has read, and only that", async () => {
    const { pos } = await store.read(workspace.ws, (reader) => reader.head());
    await watch().stop();
    expect((await store.ledgerNotes(workspace.ws)).verified).toBeNull();
    const watching = watch();
    await watching.turn();

    expect(watching.status()).toMatchObject({ checked_pos: pos, damage: null });
    expect((await store.ledgerNotes(workspace.ws)).verified).toMatchObject({ pos });
    expect(said).toEqual([]);
  });

  test.each([
    ["a changed body", "update events set data = data || ' ' where pos = 6", 6],
    ["a missing event", "delete from events where pos = 20", 20],
    ["a cut-off end", "delete from events where pos > 50", 51],
  ])("I85: finds %s below what was verified, marks it and says so", async (_what, sql, pos) => {
    await verifyLedger(store, workspace);
    tamper(sql);
    const watching = watch();
    for (let turn = 0; turn < 100 && watching.status().damage === null; turn++) {
      await watching.turn();
      expect(watching.status().walks).toBe(0);
    }

    expect(watching.status().damage).toMatchObject({ pos });
    expect((await store.ledgerNotes(workspace.ws)).damage).toMatchObject({ pos });
    await watching.turn();
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(`damaged at position ${pos}`);
  });

  test.each([
    ["a cut-off end", "delete from events where pos > 50", () => 51],
    [
      "an event beyond the head",
      `insert into events select ws, pos + 1, v, 'id', type, subject_pos, 'k', occurred_at, actor,
         null, data, hash, 'x' from events order by pos desc limit 1`,
      (head: number) => head + 1,
    ],
    ["a head that went back", "update heads set pos = 50", () => 51],
  ])("I85: finds %s that nobody has read yet", async (_what, sql, posOf) => {
    const head = await store.read(workspace.ws, (reader) => reader.head());
    await noteVerified(40);
    const watching = watch();
    tamper(sql);
    await watching.turn();
    expect((await store.ledgerNotes(workspace.ws)).damage).toMatchObject({ pos: posOf(head.pos) });
    expect(said).toHaveLength(1);
  });

  test("says once why it cannot check", async () => {
    const watching = watch();
    await appendAsRecorded('{"phase":"full"}');
    for (let turn = 0; turn < 3; turn++) await watching.turn();
    expect(said).toEqual([expect.stringContaining("MoonPhaseChanged")]);
  });

  test("I64: reads a bounded part of the ledger in a turn", async () => {
    await verifyLedger(store, workspace);
    const watching = watch();
    let turns = 0;
    while (watching.status().walks === 0) {
      await watching.turn();
      turns += 1;
    }
    const bytes = await store
      .read(workspace.ws, (reader) => reader.events({ after: 0, limit: 1_000_000 }))
      .then(bytesOf);
    expect(turns).toBe(Math.ceil(bytes / (1 << 20)));
    await watching.turn();
    expect(watching.status()).toMatchObject({ walks: 1, walked_pos: 0 });
  });
});

describe("rebuildRows", () => {
  test.each([1, 7, 100, 100_000])(
    "I13 I12: gives the same bytes in batches of %i events",
    async (batch) => {
      const before = await store.read(workspace.ws, stateHashes);
      tamper(
        "delete from task_blocks",
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

/** Adds an event of another version at the end, as if that version had appended it. */
async function appendAsRecorded(data: string, subjectPos = 0): Promise<void> {
  const { pos, hash } = await store.read(workspace.ws, (reader) => reader.head());
  const [last] = await eventsAt(pos);
  if (last === undefined) throw new Error("The ledger is empty.");
  const idempotency_key = `moon ${pos}`;
  const moon = { pos: pos + 1, type: "MoonPhaseChanged", data, idempotency_key };
  const event = { ...last, ...moon, prev_hash: hash };
  const own = nodeHash.sha256(hashedText("t", "w", event));
  tamper(
    `insert into events select ws, pos + 1, v, event_id, 'MoonPhaseChanged', ${subjectPos}, '${idempotency_key}',
       occurred_at, actor, correlation_id, '${data}', hash, '${own}'
       from events order by pos desc limit 1`,
    `update heads set pos = pos + 1, hash = '${own}'`,
  );
}

describe("events of other versions", () => {
  test("I15: an unknown event stops its workspace at the start, also among rows of the same fold", async () => {
    await verifyTail(store, workspace);
    await appendAsRecorded('{"phase":"full"}');

    const failure = await failureOf(verifyTail(store, workspace));
    expect(failure.code).toBe("LEDGER_NEWER");
    expect(failure.message).toContain("MoonPhaseChanged");
    expect((await failureOf(verifyLedger(store, workspace))).code).toBe("LEDGER_NEWER");
    expect((await store.ledgerNotes(workspace.ws)).damage).toBeNull();
  });

  test("I15: an unknown event stops its workspace though a version that knew it has verified it", async () => {
    await appendAsRecorded('{"phase":"full"}');
    const { pos, hash } = await store.read(workspace.ws, (reader) => reader.head());
    await store.saveVerified(workspace.ws, { pos, hash, types: "newer", informational: 0 });

    expect((await failureOf(verifyTail(store, workspace))).code).toBe("LEDGER_NEWER");
  });

  test("I15: informational events are counted, by a start, a verification and the watch", async () => {
    await appendAsRecorded('{"informational":true}');
    expect(await verifyTail(store, workspace)).toBeNull();
    await appendAsRecorded('{"informational":true}');
    expect(await verifyTail(store, workspace)).toBeNull();

    const { verified } = await store.ledgerNotes(workspace.ws);
    expect(verified).toMatchObject({ informational: 2 });
    expect(await verifyLedger(store, workspace)).toMatchObject({ informational: 2 });
    const watching = new LedgerWatch({
      store,
      workspace,
      elapsedMs: () => 0,
      warn: () => undefined,
      error: () => undefined,
    });
    await watching.turn();
    expect(watching.status()).toMatchObject({ informational: 2 });
  });

  test("I15: an unknown event that says it is informational is passed over", async () => {
    const before = await store.read(workspace.ws, stateHashes);
    appendUnknown('{"informational":true}');

    await rebuildRows(store, workspace);

    expect(await store.read(workspace.ws, stateHashes)).toEqual(before);
  });

  test("I15: one about a run or a backfill is passed over where only that is folded", async () => {
    const find = async <Row>(table: AnyTable, cell: string): Promise<Row | undefined> => {
      const query = { table, where: [], order: [{ cell }], limit: 1 };
      return (await store.read(workspace.ws, (reader) => reader.find(query)))[0] as Row;
    };
    const backfill = present(await find<BackfillRow>(TABLES.backfills, "created_pos"), "made");
    const run = present(await find<RunRow>(TABLES.runs, "run_pos"), "requested");
    const { backfill_id, created_pos } = backfill;
    await appendAsRecorded(JSON.stringify({ informational: true, backfill_id }), created_pos);
    const asOf = await store.read(workspace.ws, (reader) => backfillAsOf(reader, backfill_id, 1e6));
    expect(asOf).toMatchObject({ backfill_id, state: backfill.state });

    // Before the end of the run, which is behind all that can be appended.
    const moon = { type: "MoonPhaseChanged", data: '{"informational":true}' };
    const events = async (filter: EventFilter) => {
      const found = await store.read(workspace.ws, (reader) => reader.events(filter));
      return found.flatMap((event) => [{ ...event, ...moon }, event]);
    };
    const { tasks } = await refoldRun({ events } as Reader, run);
    expect(tasks).toHaveLength(run.tasks_total);
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
