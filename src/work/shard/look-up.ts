import { PawlError } from "../../kernel/errors.ts";
import { suggestion } from "../../kernel/message-text.ts";
import type { KindRuns } from "../kind.ts";
import type { Rows } from "../rows.ts";
import type { RunRow } from "../run/rows.ts";
import { type Steps, stepRuns } from "../step-runs.ts";
import { SHARDS_NAME, type ShardsSpec } from "./spec.ts";
import type { ShardWorkRef } from "./step-protocol.ts";

/** The shards of the workspace and the hash that pins their spec. */
export type PinnedShards = { spec: ShardsSpec; spec_hash: string };

/** The shards as they are published now; null when there are none. */
export function currentShards(rows: Rows): PinnedShards | null {
  const definition = rows.definitions.get("shards", SHARDS_NAME);
  if (definition === null) return null;
  const { spec_hash } = definition;
  const body = rows.specs.get(spec_hash)?.body;
  return body?.kind === "shards" ? { spec: body, spec_hash } : null;
}

/** The shards as they are published now; refuses a workspace without any. */
export function knownShards(rows: Rows): PinnedShards {
  const shards = currentShards(rows);
  if (shards !== null) return shards;
  throw new PawlError(
    "SHARD_NOT_FOUND",
    "The workspace has no shards. Define them with shards() in the project and publish them with " +
      "`pawl deploy`.",
  );
}

/** Refuses names of which there is no shard. */
export function refuseUnknownShards({ spec }: PinnedShards, names: Iterable<string>): void {
  const known = spec.shards.map(({ shard }) => shard);
  const isKnown = new Set(known);
  for (const name of names) {
    if (isKnown.has(name)) continue;
    throw new PawlError(
      "SHARD_NOT_FOUND",
      `There is no shard ${JSON.stringify(name)}${suggestion(name, known)}; there are ` +
        `${known.join(", ")}.`,
      { details: { shard: name, shards: known } },
    );
  }
}

type Work = ShardWorkRef["work"];

/** A step of one kind of work on shards. */
export type StepRef<Name extends Work> = Extract<ShardWorkRef, { work: Name }>;

/** The step that a run is, of one kind of work on shards; null for all others. */
export function stepOf<Name extends Work>(
  work: Name,
  { trigger_source_ref: source }: Pick<RunRow, "trigger_source_ref">,
): StepRef<Name> | null {
  return source.type === "shards" ? ofWork(work, source.work) : null;
}

function ofWork<Name extends Work>(
  work: Name,
  ref: ShardWorkRef | undefined,
): StepRef<Name> | null {
  return ref?.work === work ? (ref as StepRef<Name>) : null;
}

/** The runs of a kind of work on shards: each is one step. */
export function shardStepRuns<Name extends Work>(
  work: Name,
  steps: Steps<StepRef<Name>>,
): KindRuns {
  return stepRuns(
    {
      ofRun: (run) => stepOf(work, run),
      ofEvent: ({ shard_work }) => ofWork(work, shard_work),
    },
    steps,
  );
}
