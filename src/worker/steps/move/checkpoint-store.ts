import type {
  Guard,
  RowBatch,
  Shard,
  StreamState,
  TableShape,
  Digest,
} from "../../../shards/shard.ts";
import type { OpenSegment } from "./open-segment.ts";

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

/*
 * Before rows leave the source, it is noted there which ones. From then on nobody knows whether rows
 * that are missing were removed by an attempt that was lost or deleted by somebody else; so whoever
 * wants to empty the target looks at the note first, and keeps the one who left it from going on.
 */

function markName({ guard }: OpenSegment): string {
  return `${guard.plan}:remove`;
}

/** Lets nobody but this attempt change the source; answers what was about to leave it, if anything. */
export async function takeSource(segment: OpenSegment): Promise<Digest | null> {
  const { source, guard } = segment;
  await source.install();
  await source.take(guard);
  const mark = await source.loadStream(markName(segment));
  return mark === null ? null : { rows: mark.rows[0] ?? 0, digest: mark.position ?? "" };
}

/** Notes on the source which rows are about to leave it. */
export async function setMark(segment: OpenSegment, { rows, digest }: Digest): Promise<void> {
  const { source, guard, sourceTable } = segment;
  const after: StreamState = {
    position: digest,
    reaching: null,
    cursor: { table: 0, key: null },
    phase: "copy",
    rows: [rows],
    fingerprint: sourceTable.fingerprint,
    verified: null,
  };
  const marks = shardCheckpoints(source, guard, sourceTable);
  await marks.save({ stream: markName(segment), before: null, after, rows: null });
}

/** Takes the note back: the rows are known to be there. */
export async function dropMark(segment: OpenSegment): Promise<void> {
  await segment.source.dropStream(segment.guard, markName(segment));
}
