import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef } from "react";
import { cellAtPoint, type Layout, placeOf, zoomed } from "./map-geometry.ts";

/** A point of the box, from its upper left corner. */
type Point = { x: number; y: number };

/** A cell, and the point of the box where it stays. */
type Anchor = Point & { index: number };

/** How far apart two points are that somebody means as the same, in pixels. */
const SAME_POINT = 4;

/** A layout, and the size of cells it was made for before that was fitted to device pixels. */
export type SizedLayout = { layout: Layout; nominal: number };

/**
 * Makes cells larger (1) or smaller (-1), by calls and by the wheel with ctrl. The cell under the
 * pointer, else the one in the middle, stays where it is.
 */
export function useMapZoom(
  box: RefObject<HTMLElement | null>,
  sized: SizedLayout | null,
  setSize: (size: number) => void,
): (step: 1 | -1, at?: Point) => void {
  const kept = useRef<Anchor | null>(null);
  const isMoved = useRef(false);
  const zoom = useCallback(
    (step: 1 | -1, at?: Point) => {
      const element = box.current;
      if (element === null || sized === null) return;
      const point = at ?? { x: element.clientWidth / 2, y: element.clientHeight / 2 };
      kept.current = anchorAt(element, sized.layout, point, kept.current);
      isMoved.current = kept.current !== null;
      setSize(zoomed(sized.nominal, step));
    },
    [box, sized, setSize],
  );
  useLayoutEffect(() => {
    const element = box.current;
    const anchor = kept.current;
    if (element === null || anchor === null || sized === null || !isMoved.current) return;
    isMoved.current = false;
    const { row, column } = placeOf(sized.layout, anchor.index);
    element.scrollTop = (row + 0.5) * sized.layout.size - anchor.y;
    element.scrollLeft = (column + 0.5) * sized.layout.size - anchor.x;
  }, [box, sized]);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const onWheel = (event: WheelEvent): void => {
      if (!event.ctrlKey) return;
      // Otherwise the browser zooms the whole page.
      event.preventDefault();
      const { left, top } = element.getBoundingClientRect();
      zoom(event.deltaY < 0 ? 1 : -1, { x: event.clientX - left, y: event.clientY - top });
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [box, zoom]);
  return zoom;
}

/**
 * The cell that stays at a point. Rows change with the size, so another cell may be there after each
 * step: as long as the point is the same, the first one counts.
 */
function anchorAt(
  box: HTMLElement,
  layout: Layout,
  point: Point,
  last: Anchor | null,
): Anchor | null {
  if (last !== null && last.index < layout.cells) {
    const isSame =
      Math.abs(last.x - point.x) < SAME_POINT && Math.abs(last.y - point.y) < SAME_POINT;
    const { row, column } = placeOf(layout, last.index);
    const far = layout.isDown
      ? (column + 0.5) * layout.size - box.scrollLeft - point.x
      : (row + 0.5) * layout.size - box.scrollTop - point.y;
    if (isSame && Math.abs(far) <= layout.size) return last;
  }
  const index = cellAtPoint(layout, box.scrollLeft + point.x, box.scrollTop + point.y);
  return index === null ? null : { ...point, index };
}
