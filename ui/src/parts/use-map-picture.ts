import { type RefObject, useEffect, useRef } from "react";
import { drawMap, type Drawing } from "./draw-map.ts";
import { type MapView, viewOf } from "./map-geometry.ts";
import { oncePerFrame } from "./use-box-size.ts";

/** Where the box of a map is scrolled to, how large it is inside, and what is seen there. */
export type Scrolled = { x: number; y: number; width: number; height: number; view: MapView };

/** Keeps the picture of a map up to date, drawing only when something has changed. */
export function useMapPicture(
  box: RefObject<HTMLElement | null>,
  canvas: RefObject<HTMLCanvasElement | null>,
  drawing: Omit<Drawing, "window"> | null,
  heightMax: number,
  onScrolled: (scrolled: Scrolled) => void,
): void {
  const told = useRef(onScrolled);
  useEffect(() => {
    told.current = onScrolled;
  });
  useEffect(() => {
    const element = box.current;
    const surface = canvas.current;
    if (element === null || surface === null || drawing === null) return;
    const { layout, ratio } = drawing;
    const draw = (): void => {
      const width = Math.min(element.clientWidth, layout.columns * layout.size);
      const height = Math.min(heightMax, layout.rows * layout.size);
      resize(surface, width, height, ratio);
      const window = { x: element.scrollLeft, y: element.scrollTop, width, height };
      drawMap(surface, { ...drawing, window });
      const { clientWidth, clientHeight } = element;
      const { x, y } = window;
      const view = viewOf(layout, window);
      told.current({ x, y, width: clientWidth, height: clientHeight, view });
    };
    const frames = oncePerFrame(draw);
    element.addEventListener("scroll", frames.ask, { passive: true });
    draw();
    return () => {
      element.removeEventListener("scroll", frames.ask);
      frames.stop();
    };
  }, [box, canvas, drawing, heightMax]);
}

function resize(canvas: HTMLCanvasElement, width: number, height: number, ratio: number): void {
  const across = Math.round(width * ratio);
  const down = Math.round(height * ratio);
  // Setting a size empties the canvas, even when it is the same one.
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}
