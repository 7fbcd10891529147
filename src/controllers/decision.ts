import type { NewEvent } from "../core/events/index.ts";
import type { Hash } from "../core/hash.ts";
import type { Instant } from "../core/instant.ts";
import type { Tenant } from "../core/keys.ts";
import type { Rows } from "../core/rows/rows.ts";

/** Everything a decision may know besides the rows. */
export type Context = {
  readonly now: Instant;
  /** The position that the decision's first event would get. */
  readonly nextPos: number;
  readonly hash: Hash;
  readonly tenant: Tenant;
  /** The version of the time zone database that times are reckoned with. */
  readonly zoneDatabase: string;
  /** Who asked; `pawl` for what the engine decides by itself. */
  readonly principal: string;
  /** A number from 0 up to 1. */
  random(): number;
  /** A fresh id for something a user makes. */
  newId(): string;
};

/** The context of what is recorded after so many other events of the same decision. */
export function contextAfter(context: Context, events: number): Context {
  return { ...context, nextPos: context.nextPos + events };
}

/** What should be recorded, and what to tell the one who asked. */
export type Decision<Result> = { readonly events: readonly NewEvent[]; readonly result: Result };

/**
 * A pure decision on current rows. It may be run several times until all rows it reads are in
 * memory; only the last run counts. It refuses by throwing a `PawlError`.
 */
export type Decide<Result> = (rows: Rows, context: Context) => Decision<Result>;

/** What a controller wants recorded about one entity; asked again, it has nothing to add. */
export type Controller<Row> = (rows: Rows, row: Row, context: Context) => NewEvent[];

/** Most events in one decision. */
export const DECISION_EVENTS_MAX = 1_000;
