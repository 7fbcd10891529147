import {
  type FocusEvent,
  type KeyboardEvent,
  type PointerEvent,
  type RefObject,
  useCallback,
  useRef,
  useState,
} from "react";
import { cellAtPoint, type Layout, type MapSelection, movedBy, placeOf } from "./map-geometry.ts";

/** What can be done with a map by hand. */
export type HandsOptions = {
  onOpen: ((index: number) => void) | undefined;
  onSelect: ((selection: MapSelection | null) => void) | undefined;
  selection: MapSelection | null;
  zoom: (step: 1 | -1) => void;
  /** Where the cursor is at first. */
  first: number;
};

/** The pointer and the cursor of a map, and what listens to them. */
export type Hands = {
  /** The cell of the keyboard. */
  cursor: number;
  moveTo: (index: number) => void;
  /** The cell that is told about: under the pointer, else the cursor's while the map has the focus. */
  pointed: number | null;
  isByKeys: boolean;
  handlers: {
    onPointerMove: (event: PointerEvent<HTMLElement>) => void;
    onPointerLeave: () => void;
    onPointerDown: (event: PointerEvent<HTMLElement>) => void;
    onPointerUp: (event: PointerEvent<HTMLElement>) => void;
    onPointerCancel: () => void;
    onDoubleClick: () => void;
    onKeyDown: (event: KeyboardEvent<HTMLElement>) => void;
    onFocus: (event: FocusEvent<HTMLElement>) => void;
    onBlur: () => void;
  };
};

/** Follows pointer and keys over a map. */
export function useMapHands(
  box: RefObject<HTMLElement | null>,
  layout: Layout | null,
  options: HandsOptions,
): Hands {
  const { onOpen, onSelect, selection, zoom, first } = options;
  const [hovered, setHovered] = useState<number | null>(null);
  const [cursor, setCursor] = useState(first);
  const [isByKeys, setIsByKeys] = useState(false);
  const pressed = useRef<{ index: number; isMoved: boolean } | null>(null);
  const moveTo = useCallback((index: number) => {
    setCursor(index);
    setHovered(null);
    setIsByKeys(true);
  }, []);

  /** What was told about the cell would lie over what is opened. */
  const open = (index: number): void => {
    if (onOpen === undefined) return;
    setHovered(null);
    setIsByKeys(false);
    onOpen(index);
  };

  const cellUnder = (event: PointerEvent<HTMLElement>): number | null => {
    const element = box.current;
    if (element === null || layout === null) return null;
    const { left, top } = element.getBoundingClientRect();
    const x = event.clientX - left;
    const y = event.clientY - top;
    // The bars that scroll belong to the box, but are no part of the map.
    if (x >= element.clientWidth || y >= element.clientHeight) return null;
    return cellAtPoint(layout, x + element.scrollLeft, y + element.scrollTop);
  };

  const onKeyDown = (event: KeyboardEvent<HTMLElement>): void => {
    if (layout === null || layout.cells === 0 || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const { key } = event;
    const at = Math.min(cursor, layout.cells - 1);
    if (key === "Enter") open(at);
    else if (key === "+" || key === "=") zoom(1);
    else if (key === "-") zoom(-1);
    else if (key === "Escape") {
      if (selection !== null) onSelect?.(null);
      setIsByKeys(false);
    } else {
      const { clientWidth = 0, clientHeight = 0 } = box.current ?? {};
      const page = layout.isDown ? clientWidth : clientHeight;
      const to = movedBy(layout, at, key, Math.max(1, Math.floor(page / layout.size)));
      if (to === null) return;
      if (event.shiftKey) onSelect?.({ anchor: selection?.anchor ?? at, end: to });
      moveTo(to);
      scrollTo(box.current, layout, to);
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return {
    cursor,
    moveTo,
    pointed: hovered ?? (isByKeys ? cursor : null),
    isByKeys,
    handlers: {
      onPointerMove(event) {
        const index = cellUnder(event);
        setHovered(index);
        const press = pressed.current;
        if (press === null || index === null || index === press.index) return;
        press.isMoved = true;
        onSelect?.({ anchor: press.index, end: index });
      },
      onPointerLeave: () => setHovered(null),
      onPointerDown(event) {
        const index = event.button === 0 ? cellUnder(event) : null;
        if (index === null) return;
        pressed.current = { index, isMoved: false };
        setIsByKeys(false);
        setCursor(index);
        if (onSelect === undefined) return;
        if (event.pointerType === "mouse") event.currentTarget.setPointerCapture(event.pointerId);
        if (event.shiftKey && selection !== null) {
          onSelect({ anchor: selection.anchor, end: index });
          pressed.current.isMoved = true;
        }
      },
      onPointerUp(event) {
        const press = pressed.current;
        pressed.current = null;
        if (press === null || press.isMoved || cellUnder(event) !== press.index) return;
        if (onSelect === undefined) open(press.index);
        else onSelect({ anchor: press.index, end: press.index });
      },
      // A finger that scrolls opens nothing.
      onPointerCancel() {
        pressed.current = null;
      },
      onDoubleClick() {
        if (onSelect !== undefined) open(cursor);
      },
      onKeyDown,
      onFocus(event) {
        // By keyboard, not by a click on a cell.
        if (event.currentTarget.matches(":focus-visible")) setIsByKeys(true);
      },
      onBlur: () => setIsByKeys(false),
    },
  };
}

/** Scrolls no further than the cursor needs. */
function scrollTo(box: HTMLElement | null, layout: Layout, index: number): void {
  if (box === null) return;
  const { row, column } = placeOf(layout, index);
  const { size } = layout;
  const top = row * size;
  const left = column * size;
  box.scrollTop = Math.max(top + size - box.clientHeight, Math.min(box.scrollTop, top));
  box.scrollLeft = Math.max(left + size - box.clientWidth, Math.min(box.scrollLeft, left));
}
