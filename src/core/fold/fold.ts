import { PawlError } from "../errors.ts";
import { type EventData, type EventType, isEventType } from "../events/index.ts";
import type { Instant } from "../instant.ts";
import type { Rows } from "../rows/rows.ts";
import type { Key } from "../rows/table.ts";
import type { TableName } from "../rows/tables.ts";
import { BACKFILL_FOLDS } from "./fold-backfills.ts";
import { DEFINITION_FOLDS } from "./fold-definitions.ts";
import { MOVE_FOLDS } from "./fold-moves.ts";
import { ROUTING_FOLDS } from "./fold-routing.ts";
import { RUN_FOLDS } from "./fold-runs.ts";
import { SCHEDULE_FOLDS } from "./fold-schedules.ts";
import { SENSOR_FOLDS } from "./fold-sensors.ts";
import { SPLIT_FOLDS } from "./fold-splits.ts";
import { SYNC_FOLDS } from "./fold-syncs.ts";
import { TASK_FOLDS } from "./fold-tasks.ts";

/** Changes whenever the same events would give other rows; a store with another version is refolded. */
export const FOLD_VERSION = 3;

/** What the fold sees of an event. */
export type Recorded<Type extends EventType> = {
  type: Type;
  data: EventData<Type>;
  pos: number;
  event_id: string;
  occurred_at: Instant;
};

/** A row that an event touches. */
export type Touch = readonly [table: TableName, key: Key];

/** How one type of event changes the rows: pure, and never beyond the rows it names. */
export type Folding<Type extends EventType> = {
  /**
   * What the event is about: the pos at which that was created, a number below zero for what has an
   * id of its own, 0 for the workspace itself.
   */
  subject(data: EventData<Type>, pos: number): number;
  /** The rows it reads, from its data alone, so that they can be loaded at once. */
  touches(data: EventData<Type>, pos: number): Touch[];
  apply(rows: Rows, event: Recorded<Type>): void;
};

/** The folding of every event type. */
export const FOLDS: { readonly [Type in EventType]: Folding<Type> } = {
  ...DEFINITION_FOLDS,
  ...BACKFILL_FOLDS,
  ...RUN_FOLDS,
  ...TASK_FOLDS,
  ...SCHEDULE_FOLDS,
  ...SENSOR_FOLDS,
  ...SYNC_FOLDS,
  ...ROUTING_FOLDS,
  ...SPLIT_FOLDS,
  ...MOVE_FOLDS,
};

/** An event of whatever type. */
export type AnyRecorded = Recorded<EventType>;

/** The folding of an event whose type is only known at run time. */
export function foldingOf(type: string): Folding<EventType> {
  if (!isEventType(type)) {
    throw new PawlError(
      "LEDGER_NEWER",
      `The ledger holds an event of the type ${type}, which this version of Pawl does not know. ` +
        "Run the version that wrote it, or a newer one.",
      { details: { type } },
    );
  }
  return FOLDS[type];
}
