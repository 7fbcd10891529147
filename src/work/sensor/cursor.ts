/**
 * How far a sensor that watches the ledger has got: everything before `pos`, and of the event at
 * `pos` the first `taken` items; all of them when `taken` is null.
 */
export type LedgerCursor = { pos: number; taken: number | null };

/** The text of a cursor: `120` for all through 120, `120:40` when 40 items of 120 are taken. */
export function ledgerCursorText({ pos, taken }: LedgerCursor): string {
  return taken === null ? `${pos}` : `${pos}:${taken}`;
}

/** The cursor that a text stands for; null when it is none. */
export function parseLedgerCursor(text: string): LedgerCursor | null {
  const [, pos, taken] = /^(\d{1,15})(?::(\d{1,9}))?$/.exec(text) ?? [];
  if (pos === undefined) return null;
  return { pos: Number(pos), taken: taken === undefined ? null : Number(taken) };
}

/** What a sensor may watch in the ledger itself. */
export function isLedgerWatch(watch: { type: string } | null): boolean {
  return watch?.type === "materializations" || watch?.type === "run_failures";
}
