import { randomUUID } from "node:crypto";
import { PawlError } from "../../kernel/errors.ts";
import { problemOf, problemResponse } from "../../server/http/input-problems.ts";
import { type RunningServer, startServer } from "../../server/start-server.ts";
import { openStatementRunner } from "../../shards/http/run-statements.ts";
import { createShardApp } from "../../shards/http/shard-app.ts";
import { openSqliteShard } from "../../shards/sqlite/open-sqlite-shard.ts";

/** How to serve a shard. */
export type ServeShardOptions = {
  /** The SQLite file; it is made when it is not there. */
  file: string;
  /** What every request must carry. */
  token: string;
  host: string;
  port: number;
  /** Whether splits may change its schema; they may not unless told. */
  allowsDdl?: boolean | undefined;
  /** Hears of failures that should not be, under an id that the answer has. */
  onFailure?: ((error: unknown, correlationId: string) => void) | undefined;
};

/**
 * Serves an SQLite file as a shard until it is stopped. Throws `PORT_IN_USE` and
 * `SHARD_UNREACHABLE`, having closed what it had opened.
 */
export async function serveShard(options: ServeShardOptions): Promise<RunningServer> {
  const { file, token, host, port } = options;
  const statements = openStatementRunner(file);
  const shard = await openSqliteShard({ file, isServed: true }).catch((error: unknown) => {
    statements.close();
    throw error;
  });
  const close = async (): Promise<void> => {
    statements.close();
    await shard.close();
  };
  const app = createShardApp({
    shard,
    statements,
    token,
    allowsDdl: options.allowsDdl ?? false,
    refuse: (error) => {
      const correlationId = randomUUID();
      if (!(error instanceof PawlError)) options.onFailure?.(error, correlationId);
      return problemResponse(problemOf(error, correlationId), {});
    },
  });
  const running = await startServer({
    app: {
      fetch: (request) => app.fetch(request),
      tokensRequired: true,
      hasTokens: async () => true,
      stop: () => undefined,
    },
    host,
    port,
    // A step on many rows takes its time, and says nothing meanwhile.
    limits: { stillMs: 0 },
  }).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  return {
    ...running,
    async stop(timeoutMs) {
      await running.stop(timeoutMs);
      await close();
    },
  };
}
