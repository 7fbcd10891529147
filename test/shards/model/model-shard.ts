import { PawlError } from "../../../src/kernel/errors.ts";
import type { TablePolicy, Scope } from "../../../src/work/shard/spec.ts";
import type {
  ApplyRequest,
  RowChange,
  Digest,
  Fence,
  Guard,
  KeyRange,
  ReadAnswer,
  ReadRequest,
  RemoveOptions,
  SequenceValue,
  Shard,
  StreamCursor,
  StreamState,
  Survey,
  TableShape,
} from "../../../src/shards/shard.ts";
import { put } from "./model-application.ts";
import { isVisible, keyText, type ModelData, type ModelRow, positionOf } from "./model-data.ts";

const FINGERPRINT = "model";

/** A shard in memory, honest about snapshots, late commits, fences and guards. Each call is one transaction. */
export class ModelShard implements Shard {
  readonly engine = "postgres";
  readonly data: ModelData;

  constructor(data: ModelData) {
    this.data = data;
  }

  async describe(tables: readonly TablePolicy[]): Promise<TableShape[]> {
    return tables.map(({ table, shard_by }) => ({
      table,
      shard_by,
      columns: [],
      key: this.#table(table).key,
      references: [],
      fingerprint: FINGERPRINT,
    }));
  }

  async firingTriggers(): Promise<string[]> {
    return [];
  }

  async obstacles(): Promise<string[]> {
    return [];
  }

  async tenantProblem(): Promise<string | null> {
    return null;
  }

  async tryCapture(): Promise<string | null> {
    return null;
  }

  async install(): Promise<void> {
    return;
  }

  async take({ plan, token }: Guard): Promise<void> {
    if (token < (this.data.tokens[plan] ?? 0)) throw stale(plan);
    this.data.tokens[plan] = token;
  }

  async armCapture(guard: Guard): Promise<string> {
    this.#check(guard);
    return (this.data.armed[guard.plan] ??= positionOf(this.data));
  }

  async disarmCapture(guard: Guard): Promise<void> {
    this.#check(guard);
    delete this.data.armed[guard.plan];
    if (Object.keys(this.data.armed).length === 0) this.data.log = [];
  }

  async position(): Promise<string> {
    return positionOf(this.data);
  }

  async lag(from: string): Promise<{ events: number; oldest_at: string | null }> {
    return { events: this.#between(from, positionOf(this.data)).length, oldest_at: null };
  }

  async release(guard: Guard, position: string): Promise<number> {
    this.#check(guard);
    const before = this.data.log.length;
    const needed = this.data.log.filter(({ xid }) => !isVisible(xid, position));
    if (Object.keys(this.data.armed).length === 1) this.data.log = needed;
    return before - this.data.log.length;
  }

  async read(request: ReadRequest): Promise<ReadAnswer> {
    const present = positionOf(this.data);
    const { from, to = null, after_id = null, changesMax, cursor, tables, scope, chunk } = request;
    const position = to ?? present;
    const all = from === null ? [] : this.#between(from, position);
    const left = all.filter(({ id }) => id > Number(after_id ?? 0));
    const seen = left.slice(0, changesMax);
    const complete = seen.length === left.length;
    const changes = seen
      .filter(({ tenant }) => isInScope(scope, { tenant }))
      .map(
        ({ id, table, op, key, image }): RowChange => ({
          id: String(id),
          table,
          op,
          key,
          covered: isCovered(tables, cursor, table, key),
          image,
          ddl: null,
          at: "2026-01-01T00:00:00.000Z",
        }),
      );
    const isCompared = complete && to === null;
    return {
      position,
      changes,
      through_id: seen.length === 0 ? null : String(seen.at(-1)?.id),
      complete,
      chunk: chunk === null ? null : this.#chunk(chunk),
      fingerprint: FINGERPRINT,
      changed: isCompared ? this.#digestOfKeys(changes, scope) : null,
    };
  }

  async apply(request: ApplyRequest): Promise<void> {
    const { guard, stream, before, after, scope, changes, chunk, changed } = request;
    this.#check(guard);
    const state = this.data.streams[stream]?.state ?? null;
    if (JSON.stringify(state) !== JSON.stringify(before)) {
      throw new PawlError("STREAM_MOVED", `Stream ${stream} is somewhere else.`);
    }
    const tables = structuredClone(this.data.tables);
    try {
      for (const { table, rows } of changes) {
        for (const { key } of rows) this.#delete(table, key.join("/"), scope);
        for (const { key, image } of rows) {
          if (image !== null) this.#insert(table, key.join("/"), image as ModelRow);
        }
      }
      for (const row of (chunk?.rows.body ?? []) as ModelRow[]) {
        const { table } = chunk as { table: string };
        this.#insert(table, keyText(this.#table(table).key, row), row);
      }
      const keys = changes.flatMap(({ table, rows }) => rows.map(({ key }) => ({ table, key })));
      const found = this.#digestOfKeys(keys, scope);
      if (changed !== null && changed.digest !== found.digest) {
        throw new PawlError("VERIFICATION_FAILED", `Changed rows of ${stream} differ.`);
      }
    } catch (error) {
      this.data.tables = tables;
      throw error;
    }
    this.data.streams[stream] = { plan: guard.plan, state: after };
  }

  async loadStream(stream: string): Promise<StreamState | null> {
    return this.data.streams[stream]?.state ?? null;
  }

  async listStreams(plan: string): Promise<{ stream: string; state: StreamState }[]> {
    return Object.entries(this.data.streams)
      .filter(([, each]) => each.plan === plan)
      .map(([stream, { state }]) => ({ stream, state }));
  }

  async dropStream(guard: Guard, stream: string): Promise<void> {
    this.#check(guard);
    delete this.data.streams[stream];
  }

  async digest(range: KeyRange): Promise<Digest & { position: string }> {
    const rows = this.#rows(range);
    return { ...digestOf(range.table.table, rows), position: positionOf(this.data) };
  }

  async survey(range: KeyRange, rows: number, limit: number): Promise<Survey> {
    const found = this.#rows(range).map((row) => keyText(range.table.key, row));
    const bounds = Array.from({ length: Math.ceil(found.length / rows) || 1 }, (_, at) => {
      const upper = found[(at + 1) * rows];
      return { upper: upper === undefined ? null : upper.split("/"), rows };
    });
    return { bounds: bounds.slice(0, limit), sealed: bounds.length <= limit };
  }

  async tenantRows(): Promise<Record<string, number>> {
    return {};
  }

  async keyBounds(): Promise<null> {
    return null;
  }

  async remove(guard: Guard, range: KeyRange, options: RemoveOptions): Promise<number> {
    this.#check(guard);
    for (const wanted of options.fences ?? []) {
      const fence = this.data.fences[wanted.tenant];
      if (fence?.state !== wanted.state || fence.epoch !== wanted.epoch) {
        throw new PawlError("STATE_ILLEGAL", `The fence of ${wanted.tenant} stands otherwise.`);
      }
    }
    const rows = this.#rows(range).slice(0, options.limit);
    for (const row of rows) put(this.data, range.table.table, keyText(range.table.key, row), null);
    return rows.length;
  }

  async fences(tenants: readonly string[]): Promise<Fence[]> {
    return tenants.flatMap((tenant) => this.data.fences[tenant] ?? []);
  }

  async setFences(guard: Guard, fences: readonly Omit<Fence, "until">[]): Promise<void> {
    this.#check(guard);
    for (const fence of fences) this.data.fences[fence.tenant] = { ...fence, until: null };
    this.#renew(fences.map(({ tenant }) => tenant));
  }

  async closeFences(guard: Guard, tenants: readonly string[]): Promise<void> {
    this.#check(guard);
    for (const tenant of tenants) {
      const fence = this.data.fences[tenant];
      if (fence === undefined || fence.state === "moved" || fence.state === "incoming") {
        throw new PawlError("FENCE_BUSY", `${tenant} is not open.`);
      }
      this.data.fences[tenant] = { ...fence, state: "closed", until: "later" };
    }
    this.#renew(tenants);
  }

  async holdFences(guard: Guard, tenants: readonly string[]): Promise<void> {
    this.#check(guard);
    const fences = await this.fences(tenants);
    const isClosed = fences.every(
      ({ tenant, state }) => state === "closed" && !this.data.expired.includes(tenant),
    );
    if (!isClosed) throw new PawlError("FENCE_EXPIRED", "A fence is not closed any more.");
    for (const fence of fences) {
      this.data.fences[fence.tenant] = { ...fence, state: "held", until: null };
    }
  }

  async dropFences(guard: Guard, tenants: readonly string[]): Promise<void> {
    this.#check(guard);
    for (const tenant of tenants) delete this.data.fences[tenant];
    this.#renew(tenants);
  }

  async sequences(): Promise<SequenceValue[]> {
    return [];
  }

  async advanceSequences(): Promise<void> {
    return;
  }

  async runDdl(): Promise<void> {
    throw new Error("The model has no schema to change.");
  }

  async replicationLagMs(): Promise<number | null> {
    return null;
  }

  async close(): Promise<void> {
    return;
  }

  #check({ plan, token }: Guard): void {
    if (this.data.tokens[plan] !== token) throw stale(plan);
  }

  #renew(tenants: readonly string[]): void {
    this.data.expired = this.data.expired.filter((tenant) => !tenants.includes(tenant));
  }

  #between(from: string, to: string): ModelData["log"] {
    return this.data.log
      .filter(({ xid }) => isVisible(xid, to) && !isVisible(xid, from))
      .toSorted((a, b) => a.id - b.id);
  }

  #chunk(asked: NonNullable<ReadRequest["chunk"]>): ReadAnswer["chunk"] {
    const found = this.#rows(asked);
    const rows = found.slice(0, asked.limit);
    const last = rows.at(-1);
    return {
      rows: { count: rows.length, bytes: rows.length, body: structuredClone(rows) },
      last: last === undefined ? null : keyText(asked.table.key, last).split("/"),
      // One row more would have to be looked for to know, and a driver does not.
      ended: rows.length < asked.limit,
    };
  }

  #rows({ table, scope, after, from, below }: KeyRange): ModelRow[] {
    const { key, rows } = this.#table(table.table);
    return Object.values(rows)
      .filter((row) => isInScope(scope, row))
      .map((row) => ({ row, at: keyText(key, row) }))
      .filter(({ at }) => after === null || after === undefined || at > after.join("/"))
      .filter(({ at }) => from === null || from === undefined || at >= from.join("/"))
      .filter(({ at }) => below === null || below === undefined || at < below.join("/"))
      .toSorted((a, b) => (a.at < b.at ? -1 : 1))
      .map(({ row }) => row);
  }

  #digestOfKeys(keys: readonly { table: string; key: readonly string[] }[], scope: Scope): Digest {
    const named = new Set(keys.map(({ table, key }) => `${table} ${key.join("/")}`));
    const texts = [...named].flatMap((each) => {
      const [table = "", key = ""] = each.split(" ");
      const row = this.#table(table).rows[key];
      return row === undefined || !isInScope(scope, row) ? [] : [digestOf(table, [row]).digest];
    });
    return { rows: texts.length, digest: texts.toSorted().join(";") };
  }

  #delete(table: string, key: string, scope: Scope): void {
    const row = this.#table(table).rows[key];
    if (row !== undefined && isInScope(scope, row)) put(this.data, table, key, null);
  }

  #insert(table: string, key: string, row: ModelRow): void {
    if (this.#table(table).rows[key] !== undefined) {
      throw new PawlError("ROWS_CONFLICT", `${table} has ${key} already.`);
    }
    put(this.data, table, key, { ...row });
  }

  #table(table: string): ModelData["tables"][string] {
    const found = this.data.tables[table];
    if (found === undefined) throw new PawlError("TABLE_UNFIT", `There is no table ${table}.`);
    return found;
  }
}

function stale(plan: string): PawlError {
  return new PawlError("COORDINATOR_STALE", `A later step of ${plan} has acted already.`);
}

function digestOf(table: string, rows: readonly ModelRow[]): Digest {
  const texts = rows.map((row) => JSON.stringify([table, row]));
  return { rows: rows.length, digest: texts.toSorted().join(";") };
}

function isInScope(scope: Scope, row: ModelRow): boolean {
  return scope.every(({ any }) =>
    any.some((each) => each.is === "in" && each.values.includes(row["tenant"] ?? "")),
  );
}

function isCovered(
  tables: readonly TableShape[],
  cursor: StreamCursor | null,
  table: string,
  key: readonly string[],
): boolean {
  if (cursor === null) return true;
  const at = tables.findIndex((each) => each.table === table);
  if (at !== cursor.table) return at < cursor.table;
  return cursor.key !== null && key.join("/") <= cursor.key.join("/");
}
