import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import type {
  HttpRead,
  HttpShardClient,
  HttpWrite,
  ShardStatement,
  SqlResult,
} from "../http/http-shard-client.ts";
import type { SqlParameters } from "../http/statement-protocol.ts";
import { type Entry, Refusal, type RoutedShard } from "./routed-shard.ts";

/** What a shard says that has run nothing of a request, and may take it later or elsewhere. */
const REFUSALS = new Set<ErrorCode>(["EPOCH_STALE", "FENCE_CLOSED", "NOT_ENTERED", "SHARD_BUSY"]);

/** Waits before a write whose answer was lost is sent again, under the same key. */
const AGAIN_MS = [20, 100, 400, 1_000, 2_000];

/** Makes a shard of one over HTTP: writes are one batch, run when the work has ended. */
export function httpRoutedShard(name: string, shard: HttpShardClient): RoutedShard {
  return {
    async write(entry, work) {
      const batch = new HttpBatch();
      const result = await work(batch as never);
      batch.seal();
      if (batch.statements.length > 0) {
        batch.settle(await mutate(name, shard, entry, batch.statements));
      }
      return result;
    },
    async read({ tenant, epoch }, work) {
      const reading = new Reading((statements) => shard.query(tenant, epoch, statements));
      try {
        return await work(reading as never);
      } finally {
        // Also when the work caught it: what it has read may be only a part.
        reading.throwRefusal();
      }
    },
    close: async () => shard.close(),
  };
}

/**
 * Sends a write until it is known what became of it. Once an answer was lost, only success or a
 * newer epoch say so: anything else may be overtaken by the request that got no answer.
 */
async function mutate(
  name: string,
  shard: HttpShardClient,
  { tenant, epoch }: Entry,
  statements: readonly ShardStatement[],
): Promise<SqlResult[]> {
  const key = randomUUID();
  let isLost = false;
  for (let attempt = 0; ; attempt++) {
    try {
      return await shard.mutate(tenant, epoch, statements, key);
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
      const isRefused = REFUSALS.has(error.code);
      if (isRefused && (!isLost || isOver(error, epoch))) throw new Refusal(error);
      if (!isRefused && error.code !== "SHARD_UNREACHABLE" && !isLost) throw error;
      isLost ||= !isRefused && error.details["sent"] === true;
      const againMs = AGAIN_MS[attempt];
      if (againMs === undefined) throw isLost ? unknownOutcome(name, key, error) : error;
      await pause(againMs);
    }
  }
}

/** Whether no request with an epoch is ever taken again. A shard that is not open yet may be soon. */
function isOver({ code, details }: PawlError, epoch: number): boolean {
  return code === "EPOCH_STALE" && Number(details["epoch"]) > epoch;
}

function unknownOutcome(name: string, key: string, cause: PawlError): PawlError {
  return new PawlError(
    "COMMIT_UNKNOWN",
    `Shard ${name} gave no answer to a write: it may have happened or not. Look before you ` +
      "repeat it.",
    { cause, details: { shard: name, idempotency_key: key } },
  );
}

/** Queries of one piece of work, and whether one of them was refused. */
class Reading implements HttpRead {
  readonly #run: (statements: readonly ShardStatement[]) => Promise<SqlResult[]>;
  #refusal: Refusal | null = null;

  constructor(run: (statements: readonly ShardStatement[]) => Promise<SqlResult[]>) {
    this.#run = run;
  }

  async query(sql: string, params: ShardStatement["params"] = []): Promise<SqlResult> {
    const [result] = await this.queryAll([{ sql, params }]);
    if (result !== undefined) return result;
    throw new PawlError("SHARD_UNREACHABLE", "The shard gave no answer to a query.");
  }

  async queryAll(statements: readonly ShardStatement[]): Promise<SqlResult[]> {
    try {
      return await this.#run(statements);
    } catch (error) {
      if (error instanceof PawlError && REFUSALS.has(error.code)) {
        this.#refusal ??= new Refusal(error);
      }
      throw error;
    }
  }

  throwRefusal(): void {
    if (this.#refusal !== null) throw this.#refusal;
  }
}

/** Statements that wait to be run together. */
export class HttpBatch implements HttpWrite {
  readonly statements: ShardStatement[] = [];
  readonly #results: PendingResult[] = [];
  #isSealed = false;

  mutate(sql: string, params: SqlParameters = []): SqlResult {
    return this.#add(sql, params);
  }

  query(sql: string, params: SqlParameters = []): SqlResult {
    return this.#add(sql, params);
  }

  /** Takes no more statements: what was added after would silently not be run. */
  seal(): void {
    this.#isSealed = true;
  }

  /** Lets everybody look at the results. */
  settle(results: readonly SqlResult[]): void {
    this.#results.forEach((pending, index) => pending.settle(results[index] ?? null));
  }

  #add(sql: string, params: SqlParameters): SqlResult {
    if (this.#isSealed) {
      throw new PawlError(
        "STATE_ILLEGAL",
        "The write has ended, so it takes no more statements. Add them before the work returns.",
        { details: { sql } },
      );
    }
    const pending = new PendingResult(sql);
    this.statements.push({ sql, params });
    this.#results.push(pending);
    return pending;
  }
}

/** The result of a statement that has not been run yet. */
class PendingResult implements SqlResult {
  readonly #sql: string;
  #result: SqlResult | null = null;

  constructor(sql: string) {
    this.#sql = sql;
  }

  settle(result: SqlResult | null): void {
    this.#result = result;
  }

  get rows(): SqlResult["rows"] {
    return this.#known().rows;
  }

  get changes(): number {
    return this.#known().changes;
  }

  get lastInsertRowid(): number | bigint {
    return this.#known().lastInsertRowid;
  }

  #known(): SqlResult {
    if (this.#result !== null) return this.#result;
    throw new PawlError(
      "STATE_ILLEGAL",
      "A shard over HTTP runs the statements of a write together when the work has ended, so " +
        "nothing is known of them before. Return the result from the work and look at it then.",
      { details: { sql: this.#sql } },
    );
  }
}
