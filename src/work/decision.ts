import type { NewEvent } from "./events.ts";
import type { Hash } from "../kernel/canonical.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Tenant } from "./keys.ts";
import type { Rows } from "./rows.ts";

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
  /** How much to record at once, where something can be left for the next decision. */
  readonly room: Room;
  /** Whose something is that is claimed: the token of who asked, or the principal without one. */
  readonly holder: string;
  /** A number from 0 up to 1. */
  random(): number;
  /** A fresh id for something a user makes. */
  newId(): string;
};

/** How many rows a decision writes and reads, and how long the bodies of its events are, in characters. */
export type Room = { readonly rows: number; readonly bytes: number };

/** The room of one decision: a run of the most tasks that there may be fills it. */
export const DECISION_ROOM: Room = { rows: 10_000, bytes: 2_000_000 };

/** What the key of a partition costs that is only listed, as part of a row. */
export const KEY_COST = 1 / 5;

/** What a decision has used of its room. One piece of work always fits, so that it gets on. */
export class RoomUsed {
  readonly #room: Room;
  #pieces = 0;
  #rows = 0;
  #bytes = 0;

  constructor(room: Room) {
    this.#room = room;
  }

  /** Counts a piece of work. */
  add(rows: number, bytes: number): void {
    this.#pieces += 1;
    this.#rows += rows;
    this.#bytes += bytes;
  }

  /** Counts a piece of work if there is room for it; answers whether there was. */
  take(rows: number, bytes: number): boolean {
    const { rows: rowsMax, bytes: bytesMax } = this.#room;
    const fits = this.#rows + rows <= rowsMax && this.#bytes + bytes <= bytesMax;
    if (!fits && this.#pieces > 0) return false;
    this.add(rows, bytes);
    return true;
  }

  /** Whether nothing more fits. */
  get isUp(): boolean {
    return this.#rows >= this.#room.rows || this.#bytes >= this.#room.bytes;
  }
}

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
