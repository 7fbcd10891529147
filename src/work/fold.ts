import { PawlError, present } from "../kernel/errors.ts";
import { type EventData, type EventType, isEventType, type OwnEventType } from "./events.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Rows } from "./rows.ts";
import type { Key } from "../kernel/table.ts";
import type { TableName } from "./tables.ts";
import { KINDS } from "./kinds.ts";
import { PARTITION_FOLDS } from "./asset/fold-partitions.ts";
import { BACKFILL_FOLDS } from "./backfill/fold.ts";
import { DEFINITION_FOLDS } from "./definition/fold.ts";
import { MOVE_FOLDS } from "./move/fold.ts";
import { ROUTING_FOLDS } from "./routing/fold.ts";
import { REQUIRES_FOLDS } from "./requires/fold.ts";
import { RUN_FOLDS } from "./run/fold.ts";
import { SCHEDULE_FOLDS } from "./schedule/fold.ts";
import { SENSOR_FOLDS } from "./sensor/fold.ts";
import { SPLIT_FOLDS } from "./split/fold.ts";
import { SYNC_FOLDS } from "./sync/fold.ts";
import { TASK_FOLDS } from "./run/fold-tasks.ts";

/** Changes whenever the same events would give other rows; a store with another version is refolded. */
export const FOLD_VERSION = 5;

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

/** How events change rows, by their types. */
export type Folds<Type extends EventType> = { readonly [Each in Type]: Folding<Each> };

/** The folding of every event type that no kind brings with it. */
export const FOLDS: Folds<OwnEventType> = {
  ...DEFINITION_FOLDS,
  ...PARTITION_FOLDS,
  ...BACKFILL_FOLDS,
  ...RUN_FOLDS,
  ...TASK_FOLDS,
  ...REQUIRES_FOLDS,
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
  const own: Partial<Folds<EventType>> = FOLDS;
  return own[type] ?? foldingOfKind(type);
}

function foldingOfKind(type: EventType): Folding<EventType> {
  const folds: Partial<Folds<EventType>> = Object.assign(
    {},
    ...KINDS.map((kind) => kind.parts?.folds),
  );
  return present(folds[type], "every event type has its folding");
}
