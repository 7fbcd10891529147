import { PawlError } from "../core/errors.ts";
import type { MoveSpec } from "../core/move-spec.ts";
import type { MoveRow, MoveSegmentRow } from "../core/rows/move-rows.ts";
import type { Rows } from "../core/rows/rows.ts";

/** The move under an id, or the newest one of a definition's name; refuses what there is not. */
export function knownMove(rows: Rows, reference: string): MoveRow {
  const found = rows.moves.get(reference) ?? newestOf(rows, reference);
  if (found !== null) return found;
  throw new PawlError(
    "MOVE_NOT_FOUND",
    `There is no move ${JSON.stringify(reference)}. \`pawl move list\` shows those there are.`,
    { details: { move: reference } },
  );
}

function newestOf(rows: Rows, name: string): MoveRow | null {
  const where = [{ cell: "name", is: "=", value: name }] as const;
  return rows.moves.find(where, [{ cell: "created_pos", descending: true }], 1)[0] ?? null;
}

/** The segment of a move; refuses one that there is not. */
export function knownMoveSegment(rows: Rows, move: MoveRow, index: number): MoveSegmentRow {
  const segment = rows.moveSegments.get(move.move_id, index);
  if (segment !== null) return segment;
  throw new PawlError(
    "SEGMENT_NOT_FOUND",
    `Move ${move.move_id} has no segment ${index}; it has ${move.segments_total} so far.`,
    { details: { move_id: move.move_id, segment_index: index } },
  );
}

/** The definition of a move as it is published now; refuses one that there is not. */
export function knownMoveSpec(rows: Rows, name: string): MoveSpec {
  const definition = rows.definitions.get("move", name);
  const body = definition === null ? undefined : rows.specs.get(definition.spec_hash)?.body;
  if (body?.kind === "move") return body;
  throw new PawlError(
    "MOVE_NOT_FOUND",
    `There is no definition of a move ${JSON.stringify(name)}. Define it with move() in the ` +
      "project and publish it with `pawl deploy`.",
    { details: { move: name } },
  );
}
