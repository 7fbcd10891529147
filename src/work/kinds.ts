import { BACKFILL } from "./backfill/kind.ts";
import { EVENTS } from "./events.ts";
import { RESERVED_RUN_KEYS } from "./keys.ts";
import type { StartLimit, WorkKind } from "./kind.ts";
import { MOVE } from "./move/kind.ts";
import type { Rows } from "./rows.ts";
import type { RunAssetRow, RunRow } from "./run/rows.ts";
import { SCHEDULE } from "./schedule/kind.ts";
import { SENSOR } from "./sensor/kind.ts";
import { SPLIT } from "./split/kind.ts";
import { SYNC } from "./sync/kind.ts";
import { TABLES } from "./tables.ts";

/** Every kind of work, in the order in which they are told of a run and go on. */
export const KINDS: readonly WorkKind[] = [BACKFILL, SCHEDULE, SENSOR, SPLIT, MOVE, SYNC];

for (const { name, parts } of KINDS) {
  if (parts === undefined) continue;
  Object.assign(TABLES, parts.tables);
  Object.assign(EVENTS, parts.events);
  RESERVED_RUN_KEYS.push(`${name}:`);
}

/** A kind of work that has the routes, commands and pages that kinds share. */
export type ShownKind = WorkKind & Required<Pick<WorkKind, "work" | "surface">>;

/** Those kinds of work, in their order. */
export const SHOWN_KINDS: readonly ShownKind[] = KINDS.flatMap((kind) => {
  const { work, surface } = kind;
  return work === undefined || surface === undefined ? [] : [{ ...kind, work, surface }];
});

/** The kind of work that a run belongs to; undefined for a run that somebody asked for by itself. */
export function kindOf(run: RunRow): WorkKind | undefined {
  return KINDS.find(({ runs }) => runs.owns(run));
}

/** The limits of all kinds as one. */
export class StartLimits implements StartLimit {
  readonly #limits: readonly StartLimit[];

  constructor(rows: Rows) {
    this.#limits = KINDS.flatMap(({ runs }) => runs.limit?.(rows) ?? []);
  }

  need(assets: readonly RunAssetRow[]): void {
    for (const limit of this.#limits) limit.need(assets);
  }

  isFree(asset: RunAssetRow): boolean {
    return this.#limits.every((limit) => limit.isFree(asset));
  }

  take(run: RunRow): void {
    for (const limit of this.#limits) limit.take(run);
  }
}
