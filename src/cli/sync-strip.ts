import type { SegmentDocument } from "../core/api/sync-documents.ts";
import { paint, type Terminal } from "./terminal.ts";

/** Most cells of a strip; more segments share cells. */
export const CELLS_MAX = 365;

/** Where nobody says how wide the terminal is. */
const WIDTH_DEFAULT = 80;

type Kind = "complete" | "excluded" | "pending" | "running" | "failed" | "quarantined";

/** What can be in a cell, the worst last: told apart by shape, for those who see no colours. */
const CELLS: Readonly<Record<Kind, { shape: string; colour: Parameters<typeof paint>[1] }>> = {
  complete: { shape: "█", colour: "green" },
  excluded: { shape: "x", colour: "yellow" },
  pending: { shape: "·", colour: "dim" },
  running: { shape: "R", colour: "cyan" },
  failed: { shape: "F", colour: "red" },
  quarantined: { shape: "Q", colour: "magenta" },
};

const KINDS = Object.keys(CELLS) as Kind[];

type Cell = { kind: Kind; from: number };

/** Segments in the order of their blocks, as rows of cells that fit the terminal, and what they mean. */
export function stripText(terminal: Terminal, segments: readonly SegmentDocument[]): string {
  const cells = cellsOf(segments);
  const labelWidth = Math.max(0, ...cells.map(({ from }) => String(from).length));
  const width = Math.max(10, (terminal.stdout.columns ?? WIDTH_DEFAULT) - labelWidth - 3);
  const rows: string[] = [];
  for (let at = 0; at < cells.length; at += width) {
    const row = cells.slice(at, at + width);
    const label = String(row[0]?.from ?? "").padStart(labelWidth);
    rows.push(`${paint(terminal, "dim", label)}  ${rowText(terminal, row)}`);
  }
  return [...rows, legend(terminal, segments)].join("\n");
}

/** One cell for each segment, or for several next to each other, which shows the worst of them. */
function cellsOf(segments: readonly SegmentDocument[]): Cell[] {
  const count = Math.min(CELLS_MAX, segments.length);
  return Array.from({ length: count }, (_, at) => {
    const from = Math.floor((at * segments.length) / count);
    const to = Math.floor(((at + 1) * segments.length) / count);
    const shared = segments.slice(from, to);
    const worst = Math.max(...shared.map((segment) => KINDS.indexOf(kindOf(segment))));
    return { kind: KINDS[worst] ?? "pending", from: shared[0]?.from_block ?? 0 };
  });
}

function kindOf({ status, excluded }: SegmentDocument): Kind {
  if (excluded !== null) return "excluded";
  return status === "ABANDONED" ? "quarantined" : (status.toLowerCase() as Kind);
}

function rowText(terminal: Terminal, cells: readonly Cell[]): string {
  const runs: Cell["kind"][][] = [];
  for (const { kind } of cells) {
    const last = runs.at(-1);
    if (last?.[0] === kind) last.push(kind);
    else runs.push([kind]);
  }
  return runs.map((run) => cellText(terminal, run[0] ?? "pending", run.length)).join("");
}

function cellText(terminal: Terminal, kind: Kind, count: number): string {
  const { shape, colour } = CELLS[kind];
  return paint(terminal, colour, shape.repeat(count));
}

function legend(terminal: Terminal, segments: readonly SegmentDocument[]): string {
  const counts = KINDS.map((kind) => {
    return { kind, count: segments.filter((segment) => kindOf(segment) === kind).length };
  });
  const told = counts
    .filter(({ count }) => count > 0)
    .map(({ kind, count }) => `${cellText(terminal, kind, 1)} ${kind} ${count}`);
  const shared = Math.ceil(segments.length / CELLS_MAX);
  return told.join("   ") + (shared > 1 ? `   (a cell is up to ${shared} segments)` : "");
}
