import type { Mark } from "./map-look.ts";

/** Cells from this many device pixels on have a gap between them. */
const GAP_FROM = 4;

/** Cells from this many device pixels on have a mark. */
const MARK_FROM = 6;

/** The colours of a theme as a canvas takes them. */
export type Palette = {
  /** Of each state. */
  fills: readonly string[];
  /** Between cells, and inside hollow ones. */
  ground: string;
};

/** One cell, drawn once; runs of cells are filled with it. */
export function drawTile(
  context: CanvasRenderingContext2D,
  { fill, mark, size, palette }: { fill: string; mark: Mark; size: number; palette: Palette },
): void {
  const gap = size < GAP_FROM ? 0 : Math.max(1, Math.round(size / 12));
  const inner = size - gap;
  context.clearRect(0, 0, size, size);
  context.fillStyle = fill;
  context.fillRect(0, 0, inner, inner);
  if (size < MARK_FROM) return;
  const line = Math.max(1, Math.round(inner / 8));
  context.lineWidth = line;
  context.strokeStyle = inkOn(fill);
  context.fillStyle = inkOn(fill);
  drawMark(context, mark, inner, line, palette);
}

function drawMark(
  context: CanvasRenderingContext2D,
  mark: Mark,
  inner: number,
  line: number,
  { ground }: Palette,
): void {
  const edge = inner * 0.25;
  const far = inner - edge;
  switch (mark) {
    case "none":
      return;
    case "hollow":
      context.fillStyle = ground;
      context.fillRect(line, line, inner - 2 * line, inner - 2 * line);
      return;
    case "dot": {
      const side = Math.max(2, Math.round(inner / 3));
      const at = Math.round((inner - side) / 2);
      context.fillRect(at, at, side, side);
      return;
    }
    case "half":
      context.globalAlpha = 0.55;
      context.fillRect(0, Math.round(inner / 2), inner, inner - Math.round(inner / 2));
      context.globalAlpha = 1;
      return;
    case "cross":
      strokeLine(context, edge, edge, far, far);
      strokeLine(context, edge, far, far, edge);
      return;
    case "bar":
      context.fillRect(edge, Math.round((inner - line) / 2), far - edge, line);
      return;
    case "slash":
      strokeLine(context, edge, far, far, edge);
  }
}

function strokeLine(
  context: CanvasRenderingContext2D,
  ...[x, y, toX, toY]: [number, number, number, number]
): void {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

/** Dark marks on light cells, light ones on dark cells. */
export function inkOn(fill: string): string {
  const [red = 0, green = 0, blue = 0] = (fill.match(/[\d.]+/g) ?? []).map(Number);
  const lightness = (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
  return lightness > 0.5 ? "rgb(16 24 34)" : "rgb(255 255 255)";
}
