import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { PawlError } from "../../src/kernel/errors.ts";
import { asRefusal, enterRead, enterWrite, leave } from "../../src/shards/sqlite/enter.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import type { Random } from "../simulation/random.ts";
import type { Pair } from "./broken-shards.ts";
import {
  type Drawn,
  drawTransaction,
  dumpOf,
  firstRows,
  MOVING,
  SCHEMA,
  TENANTS,
  type Tenant,
} from "./splits-tables.ts";

/** The two shards. */
export type Side = "source" | "target";

/** Where files lie in memory, if there is such a place: nothing here outlives the process. */
const FOLDER = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

type Route = { shard: Side; epoch: number };

const BEGIN: Drawn = { sql: "begin", values: [] };
const BEGIN_IMMEDIATE: Drawn = { sql: "begin immediate", values: [] };
const COMMIT: Drawn = { sql: "commit", values: [] };
const ROLLBACK: Drawn = { sql: "rollback", values: [] };
const PROBE = "insert into notes (id, tenant) values (?, ?)";

/** An application on two shards, and a database of its own that has whatever was acknowledged. */
export class Application {
  readonly #random: Random;
  readonly #folder: string;
  readonly #dbs: Record<Side, Database.Database>;
  readonly #truth = new Database(":memory:");
  readonly #prepared = new Map<Database.Database, Map<string, Database.Statement>>();
  readonly #routes: Record<Tenant, Route>;
  #acknowledged = 0;
  #inFlight: { tenant: Tenant; statements: Drawn[]; side: Side } | null = null;

  constructor(random: Random, rows: number) {
    this.#random = random;
    this.#folder = mkdtempSync(join(FOLDER, "pawl-splits-"));
    this.#dbs = { source: this.#create("source"), target: this.#create("target") };
    this.#prepare(this.#truth);
    const here = { shard: "source", epoch: 1 } as const;
    const there = { shard: "target", epoch: 1 } as const;
    this.#routes = { t1: here, t2: here, stays: here, native: there };
    for (const tenant of TENANTS) {
      const db = this.#dbs[this.#routes[tenant].shard];
      for (const row of firstRows(random, tenant, rows)) {
        this.#run(db, row);
        this.#run(this.#truth, row);
      }
    }
  }

  /** Opens both shards, as a worker would. */
  async openShards(): Promise<Pair> {
    const open = (side: Side) => openSqliteShard({ file: this.#file(side), busyTimeoutMs: 2_000 });
    return { source: await open("source"), target: await open("target") };
  }

  get acknowledged(): number {
    return this.#acknowledged;
  }

  /** Writes something of a tenant where its route leads; follows refusals, and gives up on a closed fence. */
  write(tenant: Tenant): void {
    if (this.#inFlight !== null) return;
    const statements = drawTransaction(this.#random, tenant);
    const side = this.#enter(tenant);
    if (side === null) return;
    for (const statement of statements) this.#run(this.#dbs[side], statement);
    this.#inFlight = { tenant, statements, side };
  }

  /** Runs one statement of a tenant where its route leads, and commits. */
  writeOnce(tenant: Tenant, sql: string): void {
    this.commit();
    const side = this.#enter(tenant);
    if (side === null) throw new Error(`${tenant} takes no writes.`);
    const statement = { sql, values: [] };
    this.#run(this.#dbs[side], statement);
    this.#inFlight = { tenant, statements: [statement], side };
    this.commit();
  }

  /** Ends the transaction that was left open. */
  commit(): void {
    if (this.#inFlight === null) return;
    const { statements, side } = this.#inFlight;
    leave(this.#dbs[side]);
    this.#run(this.#dbs[side], COMMIT);
    this.#inFlight = null;
    for (const statement of statements) this.#run(this.#truth, statement);
    this.#acknowledged += 1;
  }

  /** Whether a shard would take a write, routed or not; nothing is written. */
  wouldTake(side: Side, tenant: Tenant, epoch: number | null): boolean {
    this.commit();
    const db = this.#dbs[side];
    this.#run(db, BEGIN_IMMEDIATE);
    try {
      if (epoch !== null) enterWrite(db, tenant, epoch);
      this.#run(db, { sql: PROBE, values: [`${tenant}-probe`, tenant] });
      return true;
    } catch (error) {
      if (error instanceof PawlError || asRefusal(error) !== null) return false;
      throw error;
    } finally {
      this.#run(db, ROLLBACK);
    }
  }

  /** Whether a shard would answer a read. */
  wouldAnswer(side: Side, tenant: Tenant, epoch: number): boolean {
    this.commit();
    const db = this.#dbs[side];
    this.#run(db, BEGIN);
    try {
      enterRead(db, tenant, epoch);
      return true;
    } catch (error) {
      if (error instanceof PawlError && error.code === "EPOCH_STALE") return false;
      throw error;
    } finally {
      this.#run(db, ROLLBACK);
    }
  }

  /** What a shard has of tenants. */
  rowsOn(side: Side, tenants: readonly Tenant[] = MOVING): string[] {
    return dumpOf(this.#dbs[side], tenants);
  }

  /** The state of a tenant's fence on a shard, as it is stored. */
  fenceOn(side: Side, tenant: Tenant): string {
    const select = "select state from _pawl_fences where tenant = ?";
    const found = this.#dbs[side].prepare<[string], string>(select).pluck().get(tenant);
    return found ?? "missing";
  }

  /** What was acknowledged of tenants. */
  acknowledgedRows(tenants: readonly Tenant[] = MOVING): string[] {
    return dumpOf(this.#truth, tenants);
  }

  /** Changes the schema of what was acknowledged, as the owner's was changed. */
  changeSchema(sql: string): void {
    this.#truth.exec(sql);
  }

  /** Changes rows behind everybody's back, as if a copy had gone wrong. */
  corrupt(side: Side, sql: string): void {
    this.commit();
    const db = this.#dbs[side];
    db.exec("begin immediate; update _pawl_session set applying = 1");
    db.exec(sql);
    db.exec("update _pawl_session set applying = 0; commit");
  }

  close(): void {
    for (const db of [this.#dbs.source, this.#dbs.target, this.#truth]) db.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Begins a transaction where the tenant may be written. */
  #enter(tenant: Tenant): Side | null {
    let route = this.#routes[tenant];
    for (let tries = 0; tries < 3; tries++) {
      const db = this.#dbs[route.shard];
      this.#run(db, BEGIN_IMMEDIATE);
      try {
        enterWrite(db, tenant, route.epoch);
        this.#routes[tenant] = route;
        return route.shard;
      } catch (error) {
        this.#run(db, ROLLBACK);
        if (!(error instanceof PawlError)) throw error;
        if (error.code !== "EPOCH_STALE") return null;
        const { shard, epoch } = error.details as { shard: Side | null; epoch: number };
        route = { shard: shard ?? route.shard, epoch };
      }
    }
    return null;
  }

  /** Statements are drawn over and over: to prepare one takes longer than to run it. */
  #run(db: Database.Database, { sql, values }: Drawn): void {
    const known = this.#prepared.get(db) ?? new Map<string, Database.Statement>();
    this.#prepared.set(db, known);
    const statement = known.get(sql) ?? db.prepare(sql);
    known.set(sql, statement);
    statement.run(values);
  }

  #file(side: Side): string {
    return join(this.#folder, `${side}.db`);
  }

  #create(side: Side): Database.Database {
    const db = new Database(this.#file(side));
    db.pragma("journal_mode = wal");
    this.#prepare(db);
    return db;
  }

  #prepare(db: Database.Database): void {
    db.pragma("foreign_keys = on");
    db.pragma("synchronous = off");
    for (const sql of SCHEMA) db.exec(sql);
  }
}
