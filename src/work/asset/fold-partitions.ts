import { present } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { keyText } from "../../kernel/table.ts";
import type { Folding, Touch } from "../fold.ts";
import type { Rows } from "../rows.ts";
import { noteMade } from "../requires/note-made.ts";
import type { TaskResultField } from "../run/events.ts";
import type { AttemptOutcome, RunRow, TaskRow } from "../run/rows.ts";
import { checkVerdicts, type CheckVerdict } from "./checks.ts";
import { type EndedAttempt, BlockEdit } from "./block-edit.ts";
import { blockOf } from "./partition-blocks.ts";
import { forgetMetadata, keepMetadata, saidOf } from "./partition-metadata.ts";

/** What the attempts of an event have in common. */
type AttemptChange = {
  readonly rows: Rows;
  readonly run: Pick<RunRow, "run_id">;
  readonly pos: number;
  readonly at: Instant;
  /** Partitions that were materialized, by asset. */
  readonly made: Map<string, string[]>;
  readonly blocks: BlockChanges;
};

/** The blocks of partitions that an event changes, each written once at its end. */
export class BlockChanges {
  readonly #rows: Rows;
  readonly #edits = new Map<string, BlockEdit>();
  /** The block that was changed last: the next partition is mostly in it, too. */
  #last: BlockEdit | null = null;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** The block of a partition, to be changed. */
  of(assetKey: string, key: string): BlockEdit {
    const block = blockOf(key);
    if (this.#last?.isOf(assetKey, block) === true) return this.#last;
    const name = keyText([assetKey, block]);
    let edit = this.#edits.get(name);
    if (edit === undefined) {
      edit = new BlockEdit(assetKey, block, this.#rows.partitionBlocks.get(assetKey, block));
      this.#edits.set(name, edit);
    }
    this.#last = edit;
    return edit;
  }

  write(): void {
    const { partitionBlocks } = this.#rows;
    for (const edit of this.#edits.values()) {
      const row = edit.done();
      if (row === null) continue;
      if (row.tried === 0) partitionBlocks.delete(row.asset_key, row.block);
      else partitionBlocks.put(row);
    }
  }
}

/** What a result says of its partitions. */
type Ended = Pick<
  TaskResultField,
  "asset_key" | "partition_keys" | "code_version" | "metadata" | "checks" | "outcome"
>;

/** Every attempt is remembered on its partitions; only a success moves the materialization. */
export function recordAttempts(
  change: AttemptChange,
  task: Pick<TaskRow, "started_pos">,
  result: Ended,
  exceptions: ReadonlyMap<number, { outcome: "FAILED" | "SKIPPED" }>,
): void {
  const { asset_key, code_version } = result;
  const said = saidOf(result.metadata);
  const common = {
    run_id: change.run.run_id,
    at: change.at,
    start_pos: present(task.started_pos, "a running task has started"),
    pos: change.pos,
    code_version,
  };
  let last: EndedAttempt | null = null;
  const attemptWith = (outcome: AttemptOutcome, checks: CheckVerdict | undefined): EndedAttempt => {
    if (last?.outcome !== outcome || last.checks !== checks) last = { ...common, outcome, checks };
    return last;
  };
  const verdicts =
    result.checks === undefined ? [] : checkVerdicts(result.checks, result.partition_keys.length);
  for (const [index, key] of result.partition_keys.entries()) {
    const outcome = exceptions.get(index)?.outcome ?? result.outcome;
    const checks = outcome === "SUCCEEDED" ? verdicts[index] : undefined;
    const edit = change.blocks.of(asset_key, key);
    const kept = edit.record(key, attemptWith(outcome, checks), said);
    if (kept === null) continue;
    const made = change.made.get(asset_key);
    if (made === undefined) change.made.set(asset_key, [key]);
    else made.push(key);
    for (const each of kept) keepMetadata(change.rows, asset_key, key, each);
  }
}

/** The blocks that a result changes; metadata in rows of its own is written without a look. */
export function touchesOfPartitions({
  asset_key,
  partition_keys,
}: Pick<Ended, "asset_key" | "partition_keys">): Touch[] {
  const touches: Touch[] = [];
  let last: string | null = null;
  for (const key of partition_keys) {
    const block = blockOf(key);
    if (block !== last) touches.push(["partitionBlocks", [asset_key, block]]);
    last = block;
  }
  return touches;
}

/** What stands in the place of a run where somebody said that a partition was made elsewhere. */
const REPORT = "report:";

/** Who reported the materialization that has this in the place of its run; null for a run's own. */
export function reporterIn(runId: string | null): string | null {
  return runId?.startsWith(REPORT) === true ? runId.slice(REPORT.length) : null;
}

const partitionsReported: Folding<"PartitionsReported"> = {
  // A report is a thing of its own: it is found by where it stands.
  subject: (_data, pos) => pos,
  touches: ({ asset_key, items }) => [
    ["assetStatus", [asset_key]],
    ["awaitedAssets", [asset_key]],
    ...items.flatMap((item) => touchesOfPartitions({ asset_key, ...item })),
  ],
  apply(rows, { data, pos, occurred_at }) {
    const { asset_key, reported_by, items } = data;
    const blocks = new BlockChanges(rows);
    const run = { run_id: `${REPORT}${reported_by}` };
    const made = new Map<string, string[]>();
    for (const { materialized_at: at, ...item } of items) {
      const change = { rows, run, pos, at, made, blocks };
      const ended = { asset_key, outcome: "SUCCEEDED" as const, ...item };
      recordAttempts(change, { started_pos: pos }, ended, new Map());
    }
    blocks.write();
    rows.assetStatus.put({
      asset_key,
      last_materialization_at: occurred_at,
      last_materialization_pos: pos,
    });
    noteMade(rows, asset_key, made.get(asset_key) ?? [], pos);
  },
};

const partitionsForgotten: Folding<"PartitionsForgotten"> = {
  subject: (_data, pos) => pos,
  touches: (data) => touchesOfPartitions(data),
  apply(rows, { data: { asset_key, partition_keys } }) {
    const blocks = new BlockChanges(rows);
    for (const key of partition_keys) {
      const kept = blocks.of(asset_key, key).forget(key);
      forgetMetadata(rows, asset_key, key, kept);
    }
    blocks.write();
  },
};

/** The foldings of what is said of partitions from elsewhere. */
export const PARTITION_FOLDS = {
  PartitionsReported: partitionsReported,
  PartitionsForgotten: partitionsForgotten,
};
