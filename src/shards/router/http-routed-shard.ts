import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import type {
  HttpRead,
  HttpShardClient,
  SqlResult,
  ShardStatement,
} from "../http/http-shard-client.ts";
import { HttpBatch } from "./http-batch.ts";
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
