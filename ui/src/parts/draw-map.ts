import { cellAt, type Layout, type MapView, viewOf } from "./map-geometry.ts";
import type { MapLook } from "./map-look.ts";
import { drawTile, type Palette } from "./draw-tile.ts";

/** Cells smaller than this are drawn as the pixels of a picture that is then made larger. */
const TILE_FROM = 4;

/** How much is left of what is not highlighted. */
const FAINT = 0.18;

/** All that a picture of a map depends on. Points and sizes are in pixels of the page. */
export type Drawing = {
  layout: Layout;
  cells: Uint8Array;
  looks: readonly MapLook[];
  palette: Palette;
  /** The only state that is not faint; null for all. */
  only: number | null;
  /** The part of the map that is seen. */
  window: { x: number; y: number; width: number; height: number };
  /** Device pixels in a pixel of the page. */
  ratio: number;
};

/** Draws the part of the map that is seen: so many runs as are in view, whatever the map's size. */
export function drawMap(canvas: HTMLCanvasElement, drawing: Drawing): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const { layout, ratio, window } = drawing;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.globalAlpha = 1;
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (layout.cells === 0) return;
  const view = viewOf(layout, window);
  const place = {
    size: Math.round(layout.size * ratio),
    left: Math.round(window.x * ratio),
    top: Math.round(window.y * ratio),
  };
  if (place.size < TILE_FROM) drawPixels(context, drawing, view, place);
  else drawRuns(context, drawing, view, place);
}

type Place = { size: number; left: number; top: number };

function drawPixels(
  context: CanvasRenderingContext2D,
  { layout, cells, palette, only }: Drawing,
  view: MapView,
  { size, left, top }: Place,
): void {
  const width = view.toColumn - view.fromColumn + 1;
  const height = view.toRow - view.fromRow + 1;
  const colours = palette.fills.map((fill, state) =>
    pixelOf(fill, only === null || only === state ? 1 : FAINT),
  );
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const { isDown, rows, columns, lead } = layout;
  const [ofRow, ofColumn] = isDown ? [1, rows] : [columns, 1];
  for (let row = 0; row < height; row++) {
    const first = (view.fromRow + row) * ofRow + view.fromColumn * ofColumn - lead;
    for (let column = 0; column < width; column++) {
      const state = cells[first + column * ofColumn];
      // Outside of the map nothing is there, and nothing is drawn.
      if (state !== undefined) pixels[row * width + column] = colours[state] ?? 0;
    }
  }
  const picture = new OffscreenCanvas(width, height);
  picture.getContext("2d")?.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  const x = view.fromColumn * size - left;
  const y = view.fromRow * size - top;
  context.drawImage(picture, x, y, width * size, height * size);
}

/** A colour as a pixel of a picture, of which all browsers' machines store the lowest byte first. */
function pixelOf(colour: string, alpha: number): number {
  const [red = 0, green = 0, blue = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return ((Math.round(alpha * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function drawRuns(
  context: CanvasRenderingContext2D,
  drawing: Drawing,
  view: MapView,
  { size, left, top }: Place,
): void {
  const { layout, cells, only } = drawing;
  const patterns = patternsOf(context, drawing, size);
  // A pattern begins at the origin, so the origin is the map's.
  context.setTransform(1, 0, 0, 1, -left, -top);
  const { isDown } = layout;
  const [fromLine, toLine, fromAt, toAt] = isDown
    ? [view.fromColumn, view.toColumn, view.fromRow, view.toRow]
    : [view.fromRow, view.toRow, view.fromColumn, view.toColumn];
  for (let line = fromLine; line <= toLine; line++) {
    let at = fromAt;
    while (at <= toAt) {
      const index = isDown ? cellAt(layout, at, line) : cellAt(layout, line, at);
      const state = index === null ? null : (cells[index] ?? 0);
      let end = at + 1;
      if (state !== null && index !== null) {
        const most = Math.min(toAt + 1 - at, layout.cells - index);
        while (end - at < most && cells[index + end - at] === state) end++;
        context.globalAlpha = only === null || only === state ? 1 : FAINT;
        context.fillStyle = patterns[state] ?? "transparent";
        const length = (end - at) * size;
        if (isDown) context.fillRect(line * size, at * size, size, length);
        else context.fillRect(at * size, line * size, length, size);
      }
      at = end;
    }
  }
}

function patternsOf(
  context: CanvasRenderingContext2D,
  { looks, palette }: Drawing,
  size: number,
): (CanvasPattern | null)[] {
  return looks.map(({ mark }, state) => {
    const tile = document.createElement("canvas");
    tile.width = size;
    tile.height = size;
    const inside = tile.getContext("2d");
    const fill = palette.fills[state] ?? palette.ground;
    if (inside !== null) drawTile(inside, { fill, mark, size, palette });
    return context.createPattern(tile, "repeat");
  });
}
