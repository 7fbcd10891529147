import type { EventDocument } from "../../../../src/work/server-api.ts";
import type { EventData, EventType } from "../../../../src/work/events.ts";
import type { Sentences } from "./sentence.ts";
import { MOVE_SENTENCES, SPLIT_SENTENCES } from "./shard-sentences.ts";
import { SYNC_SENTENCES, TRIGGER_SENTENCES } from "./trigger-sentences.ts";
import { BACKFILL_SENTENCES, DEFINITION_SENTENCES, RUN_SENTENCES } from "./work-sentences.ts";

/** Every type of event has a sentence: one without does not compile. */
const SENTENCES: Sentences<EventType> = {
  ...RUN_SENTENCES,
  ...BACKFILL_SENTENCES,
  ...TRIGGER_SENTENCES,
  ...SYNC_SENTENCES,
  ...SPLIT_SENTENCES,
  ...MOVE_SENTENCES,
  ...DEFINITION_SENTENCES,
};

/** All types of events, by what they are about. */
export const EVENT_TYPES: readonly (readonly [about: string, types: readonly string[]])[] = [
  ["Runs", Object.keys(RUN_SENTENCES)],
  ["Backfills", Object.keys(BACKFILL_SENTENCES)],
  ["Schedules and sensors", Object.keys(TRIGGER_SENTENCES)],
  ["Syncs", Object.keys(SYNC_SENTENCES)],
  ["Routing and splits", Object.keys(SPLIT_SENTENCES)],
  ["Moves", Object.keys(MOVE_SENTENCES)],
  ["Definitions", Object.keys(DEFINITION_SENTENCES)],
];

/** What an event says in a sentence; null for one that this page knows nothing of. */
export function eventSentence({ type, data }: Pick<EventDocument, "type" | "data">): string | null {
  const tell = (SENTENCES as Record<string, ((data: unknown) => string) | undefined>)[type];
  try {
    return tell?.(data) ?? null;
  } catch {
    // An event of another version may lack what its sentence needs; its data is shown all the same.
    return null;
  }
}

type Result = EventData<"TasksFinished">["results"][number];

/**
 * An event as far as it is about a partition (`<asset>@<key>`): one records how many tasks ended, and
 * what became of the others says nothing of this one. Any other event, or entity, as it is.
 */
export function aboutPartition(event: EventDocument, entity: string): EventDocument {
  const at = entity.indexOf("@");
  if (event.type !== "TasksFinished" || at < 0) return event;
  const [asset, key] = [entity.slice(0, at), entity.slice(at + 1)];
  const data = event.data as EventData<"TasksFinished">;
  const own = data.results.flatMap((result) => {
    const place = result.asset_key === asset ? result.partition_keys.indexOf(key) : -1;
    return place < 0 ? [] : [resultAt(result, place)];
  });
  return own.length === 0 ? event : { ...event, data: { ...data, results: own } as never };
}

/** What became of one of the partitions of a result, be it of several tasks or of a batch. */
function resultAt(result: Result, place: number): Result {
  const { count: _, exceptions = [], error, ...shared } = result;
  const partition_keys = result.partition_keys.slice(place, place + 1);
  const own = exceptions.find(({ index }) => index === place);
  if (own !== undefined) {
    return { ...shared, partition_keys, outcome: own.outcome, ...given(own.error) };
  }
  // The error of a batch that did not fail as a whole is of those that did.
  return { ...shared, partition_keys, ...given(exceptions.length === 0 ? error : null) };
}

function given(error: Result["error"] | null): Pick<Result, "error"> {
  return error === undefined || error === null ? {} : { error };
}
