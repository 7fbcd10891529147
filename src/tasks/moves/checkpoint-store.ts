import type { Guard, RowBatch, Shard, StreamState, TableShape } from "../../shards/shard.ts";

/** A checkpoint and the rows that it stands for. */
export type Saved = {
  readonly stream: string;
  /** What must be there now; null for a stream that is new. Else STREAM_MOVED. */
  readonly before: StreamState | null;
  readonly after: StreamState;
  /** Rows that are written together with it, or not at all. */
  readonly rows: RowBatch | null;
};

/**
 * Where checkpoints of copies are kept. It must keep them where the rows go, in one transaction with
 * the rows: only then is a copy that goes on from one neither short of rows nor has some twice.
 */
export interface CheckpointStore {
  save(checkpoint: Saved): Promise<void>;
  load(stream: string): Promise<StreamState | null>;
  /** All that are kept for the plan of the guard, by name. */
  list(): Promise<{ stream: string; state: StreamState }[]>;
}

/** Keeps checkpoints on the shard that the rows of a table go to. */
export function shardCheckpoints(shard: Shard, guard: Guard, table: TableShape): CheckpointStore {
  return {
    save: ({ rows, ...saved }) =>
      shard.apply({
        guard,
        ...saved,
        tables: [table],
        scope: [],
        changes: [],
        ddl: null,
        chunk: rows === null ? null : { table: table.table, rows },
        changed: null,
      }),
    load: (stream) => shard.loadStream(stream),
    list: () => shard.listStreams(guard.plan),
  };
}
