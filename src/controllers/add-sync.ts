import { PawlError } from "../core/errors.ts";
import type { EventData, NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { SyncState } from "../core/rows/sync-rows.ts";
import { sourceOf, type SyncSpec, SyncTarget, targetKeyOf } from "../core/sync-spec.ts";
import type { Context, Decide } from "./decision.ts";
import { knownDefinition, livingSync } from "./find-sync.ts";

/** Longest name of a source. */
const SOURCE_LENGTH_MAX = 200;

/** A wish to sync one more target. */
export type AddSyncInput = {
  name: string;
  target: SyncTarget;
  from_block?: number | undefined;
  to_block?: number | undefined;
  max_parallel?: number | undefined;
  priority?: number | undefined;
};

/** Where a sync stands after a command. */
export type SyncChanged = {
  sync_id: string;
  name: string;
  target_key: string;
  state: SyncState;
  state_version: number;
};

/** A target as its event has it. */
export type AddedSync = EventData<"SyncsAdded">["syncs"][number];

/** Adds a target that code does not name. */
export function addSync(input: AddSyncInput): Decide<SyncChanged> {
  return (rows, context) => {
    const { spec } = knownDefinition(rows, input.name);
    const added = asInput(() => addedSync(spec, checkedTarget(input), input, context));
    const { name } = spec;
    const { sync_id, target_key } = added;
    const existing = livingSync(rows, name, target_key);
    if (existing !== null) {
      throw new PawlError(
        "NAME_TAKEN",
        `${name} syncs ${target_key} already, as ${existing.sync_id} (${existing.state}).`,
        { details: { sync: name, target_key, sync_id: existing.sync_id } },
      );
    }
    const result = { sync_id, name, target_key, state: "PENDING", state_version: 1 } as const;
    return { events: [syncsAdded(name, "api", [added])], result };
  };
}

/** What does not fit the definition is the fault of the target that somebody gave, not of code. */
function asInput<Result>(body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "DEFINITION_INVALID") throw error;
    throw new PawlError("INPUT_INVALID", error.message, { details: error.details, cause: error });
  }
}

function checkedTarget({ target }: AddSyncInput): SyncTarget {
  const parsed = SyncTarget.safeParse(target);
  if (parsed.success) return parsed.data;
  const fault = parsed.error.issues.map(({ path, message }) => [...path, message].join(" "));
  throw new PawlError("INPUT_INVALID", `The target is none: ${fault.join("; ")}.`, {
    details: { target },
  });
}

/** A new sync of a target; refuses one that has nothing to fetch, or no source. */
export function addedSync(
  spec: SyncSpec,
  target: SyncTarget,
  own: Omit<AddSyncInput, "name" | "target">,
  context: Pick<Context, "newId">,
): AddedSync {
  const from_block = own.from_block ?? spec.from;
  const to_limit = own.to_block ?? null;
  const end = to_limit ?? spec.to;
  const target_key = targetKeyOf(target);
  if (end !== null && end < from_block) {
    throw new PawlError(
      "INPUT_INVALID",
      `${spec.name} of ${target_key} would begin at ${from_block} and end before that, at ${end}.`,
      { details: { from_block, to_block: end } },
    );
  }
  return {
    sync_id: context.newId(),
    target,
    target_key,
    source: sourceNamed(spec, target),
    from_block,
    to_limit,
    max_parallel: own.max_parallel ?? null,
    priority: own.priority ?? null,
  };
}

function sourceNamed(spec: SyncSpec, target: SyncTarget): string {
  const source = sourceOf(spec, target);
  if (source.length <= SOURCE_LENGTH_MAX) return source;
  throw new PawlError(
    "DEFINITION_INVALID",
    `The sync ${spec.name} has, for ${targetKeyOf(target)}, a source of ${source.length} ` +
      `characters; at most ${SOURCE_LENGTH_MAX} are possible.`,
    { details: { sync: spec.name, source } },
  );
}

/** The event that adds syncs. */
export function syncsAdded(
  name: string,
  origin: "code" | "api",
  syncs: readonly [AddedSync, ...AddedSync[]],
): NewEvent {
  return {
    type: "SyncsAdded",
    idempotency_key: IDEMPOTENCY_KEYS.syncsAdded(syncs[0].sync_id),
    data: { name, origin, syncs: [...syncs] },
  };
}
