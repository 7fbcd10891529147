import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type {
  ApplyRequest,
  CopyKind,
  Digest,
  Fence,
  Guard,
  KeyRange,
  Position,
  ReadAnswer,
  ReadRequest,
  RemoveOptions,
  SequenceValue,
  Shard,
  StreamState,
  Survey,
  TableShape,
} from "../shard.ts";
import { apply } from "./apply.ts";
import { armCapture, disarmCapture, release, runDdl, tryCapture } from "./capture.ts";
import { catalogueSql, firingTriggers, mayBeReplica, obstacles, readShapes } from "./catalogue.ts";
import { install, dropStream, listStreams, loadStream, take } from "./install.ts";
import { digest, keyBounds, remove, survey, tenantRows } from "./ranges.ts";
import { lag, presentPosition, read } from "./read.ts";
import {
  advanceSequences,
  closeFences,
  dropFences,
  holdFences,
  readFences,
  readSequences,
  setFences,
  tenantProblem,
} from "./tenants.ts";
import { onlyValue, type PostgresShardOptions, shardPool, withSession } from "./session.ts";

/** The oldest PostgreSQL with `hash_record_extended` and `create or replace trigger`. */
const VERSION_MIN = 140_000;

/** How far the replica that is furthest behind has got; NULL when there is none, or no right to know. */
const REPLICATION_LAG = `
select (extract(epoch from max(coalesce(replay_lag, interval '0'))) * 1000)::bigint
from pg_stat_replication where replay_lsn is not null`;

/** Opens a shard that is a PostgreSQL database; throws SHARD_UNREACHABLE when it does not answer. */
export async function openPostgresShard(options: PostgresShardOptions): Promise<Shard> {
  const schema = options.schema ?? "public";
  const pool = shardPool(options, schema);
  try {
    const isReplica = await withSession(pool, async (session) => {
      const version = Number(onlyValue(await session.rows("show server_version_num")));
      if (version < VERSION_MIN) {
        throw new PawlError(
          "CONFIG_INVALID",
          `The shard is PostgreSQL ${Math.trunc(version / 10_000)}. Version 14 or later is needed.`,
        );
      }
      return mayBeReplica(session);
    });
    return new PostgresShard(pool, schema, isReplica);
  } catch (error) {
    await pool.end();
    throw error;
  }
}

class PostgresShard implements Shard {
  readonly engine = "postgres";
  readonly #pool: pg.Pool;
  readonly #schema: string;
  readonly #isReplica: boolean;

  constructor(pool: pg.Pool, schema: string, isReplica: boolean) {
    this.#pool = pool;
    this.#schema = schema;
    this.#isReplica = isReplica;
  }

  async describe(tables: readonly TablePolicy[]): Promise<TableShape[]> {
    if (tables.length === 0) return [];
    const named = tables.map(({ table }) => table);
    const rows = await withSession(this.#pool, (session) =>
      session.rows(catalogueSql(named, this.#schema)),
    );
    return readShapes(rows, tables, this.#schema);
  }

  async firingTriggers(tables: readonly TableShape[]): Promise<string[]> {
    return firingTriggers(this.#pool, this.#schema, this.#isReplica, tables);
  }

  async obstacles(tables: readonly TableShape[], kind: CopyKind): Promise<string[]> {
    return obstacles(this.#pool, this.#schema, this.#isReplica, tables, kind);
  }

  async tenantProblem(
    tables: readonly TableShape[],
    tenants: readonly string[],
  ): Promise<string | null> {
    return tenantProblem(this.#pool, this.#schema, tables, tenants);
  }

  async tryCapture(tables: readonly TableShape[]): Promise<string | null> {
    return tryCapture(this.#pool, this.#schema, tables);
  }

  async install(): Promise<void> {
    await install(this.#pool);
  }

  async take(guard: Guard): Promise<void> {
    await take(this.#pool, guard);
  }

  async armCapture(guard: Guard, tables: readonly TableShape[]): Promise<Position> {
    return armCapture(this.#pool, this.#schema, guard, tables);
  }

  async disarmCapture(guard: Guard): Promise<void> {
    await disarmCapture(this.#pool, this.#schema, guard);
  }

  async position(): Promise<Position> {
    return presentPosition(this.#pool);
  }

  async lag(from: Position): Promise<{ events: number; oldest_at: string | null }> {
    return lag(this.#pool, from);
  }

  async release(guard: Guard, position: Position): Promise<number> {
    return release(this.#pool, guard, position);
  }

  async read(request: ReadRequest): Promise<ReadAnswer> {
    return read(this.#pool, this.#schema, request);
  }

  async apply(request: ApplyRequest): Promise<void> {
    await apply(this.#pool, this.#schema, this.#isReplica, request);
  }

  async loadStream(stream: string): Promise<StreamState | null> {
    return loadStream(this.#pool, stream);
  }

  async listStreams(plan: string): Promise<{ stream: string; state: StreamState }[]> {
    return listStreams(this.#pool, plan);
  }

  async dropStream(guard: Guard, stream: string): Promise<void> {
    await dropStream(this.#pool, guard, stream);
  }

  async digest(range: KeyRange): Promise<Digest & { position: Position }> {
    return digest(this.#pool, this.#schema, range);
  }

  async survey(range: KeyRange, rows: number, limit: number): Promise<Survey> {
    return survey(this.#pool, this.#schema, range, rows, limit);
  }

  async tenantRows(range: KeyRange): Promise<Record<string, number>> {
    return tenantRows(this.#pool, this.#schema, range);
  }

  async keyBounds(range: KeyRange): Promise<{ least: string; greatest: string } | null> {
    return keyBounds(this.#pool, this.#schema, range);
  }

  async remove(guard: Guard, range: KeyRange, options: RemoveOptions): Promise<number | null> {
    return remove(this.#pool, this.#schema, this.#isReplica, guard, range, options);
  }

  async fences(tenants: readonly string[]): Promise<Fence[]> {
    return readFences(this.#pool, tenants);
  }

  async setFences(guard: Guard, fences: readonly Omit<Fence, "until">[]): Promise<void> {
    await setFences(this.#pool, guard, fences);
  }

  async closeFences(
    guard: Guard,
    tenants: readonly string[],
    options: { waitMs: number; holdMs: number },
  ): Promise<void> {
    await closeFences(this.#pool, guard, tenants, options);
  }

  async holdFences(guard: Guard, tenants: readonly string[]): Promise<void> {
    await holdFences(this.#pool, guard, tenants);
  }

  async dropFences(guard: Guard, tenants: readonly string[]): Promise<void> {
    await dropFences(this.#pool, guard, tenants);
  }

  async sequences(tables: readonly TableShape[]): Promise<SequenceValue[]> {
    return readSequences(this.#pool, this.#schema, tables);
  }

  async advanceSequences(values: readonly SequenceValue[]): Promise<void> {
    await advanceSequences(this.#pool, this.#schema, values);
  }

  async runDdl(guard: Guard, sql: string, tables: readonly TablePolicy[]): Promise<void> {
    await runDdl(this.#pool, this.#schema, guard, sql, tables);
  }

  async replicationLagMs(): Promise<number | null> {
    const [row] = await withSession(this.#pool, (session) => session.rows(REPLICATION_LAG));
    const ms = row?.[0] ?? null;
    return ms === null ? null : Number(ms);
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}
