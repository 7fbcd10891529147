import { present } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { keyText } from "../../kernel/table.ts";
import type { Touch } from "../fold.ts";
import type { Rows } from "../rows.ts";
import type { TaskResultField } from "../run/events.ts";
import type { AttemptOutcome, RunRow, TaskRow } from "../run/rows.ts";
import { type EndedAttempt, BlockEdit, blockOf, saidOf } from "./partition-blocks.ts";

/** What the attempts of an event have in common. */
type AttemptChange = {
  readonly rows: Rows;
  readonly run: Pick<RunRow, "run_id">;
  readonly pos: number;
  readonly at: Instant;
  /** Assets of which something was materialized. */
  readonly made: Set<string>;
  readonly blocks: BlockChanges;
};

/** The blocks of partitions that an event changes, each written once at its end. */
export class BlockChanges {
  readonly #rows: Rows;
  readonly #edits = new Map<string, BlockEdit>();

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** The block of a partition, to be changed. */
  of(assetKey: string, key: string): BlockEdit {
    const block = blockOf(key);
    const name = keyText([assetKey, block]);
    let edit = this.#edits.get(name);
    if (edit === undefined) {
      edit = new BlockEdit(assetKey, block, this.#rows.partitionBlocks.get(assetKey, block));
      this.#edits.set(name, edit);
    }
    return edit;
  }

  write(): void {
    for (const edit of this.#edits.values()) {
      const row = edit.done();
      if (row !== null) this.#rows.partitionBlocks.put(row);
    }
  }
}

/** Every attempt is remembered on its partitions; only a success moves the materialization. */
export function recordAttempts(
  change: AttemptChange,
  task: Pick<TaskRow, "started_pos">,
  result: TaskResultField,
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
  const attempts = new Map<AttemptOutcome, EndedAttempt>();
  const attemptWith = (outcome: AttemptOutcome): EndedAttempt => {
    const attempt = attempts.get(outcome) ?? { ...common, outcome };
    attempts.set(outcome, attempt);
    return attempt;
  };
  for (const [index, key] of result.partition_keys.entries()) {
    const outcome = exceptions.get(index)?.outcome ?? result.outcome;
    const edit = change.blocks.of(asset_key, key);
    const recorded = edit.record(key, attemptWith(outcome), said);
    if (recorded === "nothing") continue;
    change.made.add(asset_key);
    const { partitionMetadata } = change.rows;
    if (recorded === "made, apart") {
      partitionMetadata.put({ asset_key, partition_key: key, metadata: said?.value ?? null });
    } else if (recorded === "made, no longer apart") partitionMetadata.delete(asset_key, key);
  }
}

/** The blocks, and the metadata in rows of its own, that a result changes. */
export function touchesOfPartitions({
  asset_key,
  partition_keys,
  metadata,
}: TaskResultField): Touch[] {
  const touches: Touch[] = [];
  const isOfItsOwn = saidOf(metadata)?.isApart === true;
  let last: string | null = null;
  for (const key of partition_keys) {
    if (isOfItsOwn) touches.push(["partitionMetadata", [asset_key, key]]);
    const block = blockOf(key);
    if (block !== last) touches.push(["partitionBlocks", [asset_key, block]]);
    last = block;
  }
  return touches;
}
