import { type RefObject, useEffect, useState } from "react";

/** How wide the box of a map is inside, and how many device pixels a pixel of it has. */
export type BoxSize = { width: number; ratio: number };

/** The inner width of the box, and again whenever it changes. */
export function useBoxSize(box: RefObject<HTMLElement | null>): BoxSize | null {
  const [size, setSize] = useState<BoxSize | null>(null);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = (): void => {
      const width = element.clientWidth;
      const ratio = devicePixelRatio;
      setSize((before) =>
        before?.width === width && before.ratio === ratio ? before : { width, ratio },
      );
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [box]);
  return size;
}

/** Calls once before the next picture of the browser, however often it is asked to. */
export function oncePerFrame(act: () => void): { ask: () => void; stop: () => void } {
  let frame: number | null = null;
  return {
    ask() {
      frame ??= requestAnimationFrame(() => {
        frame = null;
        act();
      });
    },
    stop() {
      if (frame !== null) cancelAnimationFrame(frame);
      frame = null;
    },
  };
}
