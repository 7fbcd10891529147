import type { EventDocument } from "../../../../src/core/api/event-operations.ts";
import type { EventType } from "../../../../src/core/events/index.ts";
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
