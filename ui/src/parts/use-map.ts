import {
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { cellsOf, countsOf, nextCell } from "./map-cells.ts";
import { firstSize, type Layout, type LayoutInput, layoutOf } from "./map-geometry.ts";
import { type MapLook, mapLookOf } from "./map-look.ts";
import { bringIntoView } from "./map-surface.tsx";
import type { Palette } from "./draw-tile.ts";
import type { RunLengthMapProps } from "./run-length-map.tsx";
import { type Hands, useMapHands } from "./use-map-hands.ts";
import { type Scrolled, useMapPicture } from "./use-map-picture.ts";
import { useBoxSize } from "./use-box-size.ts";
import { type SizedLayout, useMapZoom } from "./use-map-zoom.ts";
import { usePalette } from "./use-palette.ts";

/** What somebody moves about in a map with. */
const MOVING = ["wheel", "pointerdown", "touchmove", "keydown"] as const;

/** Everything that a map knows while it is shown. */
export type MapModel = {
  box: RefObject<HTMLDivElement | null>;
  canvas: RefObject<HTMLCanvasElement | null>;
  cells: Uint8Array;
  counts: readonly number[];
  looks: readonly MapLook[];
  palette: Palette | null;
  /** Null until the box has been measured. */
  sized: SizedLayout | null;
  scrolled: Scrolled | null;
  only: number | null;
  setOnly: (state: number | null) => void;
  /** Goes to the next or previous cell in the state that is picked out. */
  step: (by: 1 | -1) => void;
  zoom: (step: 1 | -1) => void;
  fit: () => void;
  hands: Hands;
};

/** Puts a map together: what it shows, how large, and what is done with it. */
export function useMap(props: RunLengthMapProps, heightMax: number): MapModel {
  const { states, lengths, columns, down, lead = 0, runsOn, sizeMin } = props;
  const { marked = null, selection = null, onView, startsAt = null } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const cells = useMemo(() => cellsOf(props.cells, lengths), [props.cells, lengths]);
  const counts = useMemo(() => countsOf(states.length, lengths), [states.length, lengths]);
  // An answer that came again has the same states in another list.
  const statesText = states.join();
  const looks = useMemo(() => statesText.split(",").map(mapLookOf), [statesText]);
  const palette = usePalette(box, looks);
  const [only, setOnly] = useState<number | null>(null);
  const [scrolled, setScrolled] = useState<Scrolled | null>(null);
  const { sized, ratio, setSize, isFitted } = useSizedLayout(
    box,
    { cells: cells.length, columns, down, lead, runsOn },
    { heightMax, sizeMin },
  );
  const layout = sized?.layout ?? null;
  const zoom = useMapZoom(box, sized, setSize);
  const { onOpen, onSelect } = props;
  const first = marked ?? firstCell(startsAt, { cells: cells.length, columns, down, lead });
  const hands = useMapHands(box, layout, { onOpen, onSelect, selection, zoom, first });
  const drawing = useMemo(() => {
    if (layout === null || palette === null) return null;
    return { layout, cells, looks, palette, only, ratio };
  }, [layout, cells, looks, palette, only, ratio]);
  const hasAxes = props.rowLabel !== undefined || props.columnLabel !== undefined;
  useMapPicture(box, canvas, drawing, heightMax, (seen) => {
    if (hasAxes) setScrolled(seen);
    if (layout !== null) onView?.(seen.view, layout);
  });
  const leaveEnd = useStayAtEnd(box, isFitted && marked === null ? layout : null, startsAt);
  useEffect(() => {
    if (marked === null || layout === null) return;
    leaveEnd();
    bringIntoView(box.current, layout, marked);
    // Only when another cell is marked: whoever scrolled away wants to look there.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [marked, layout === null]);
  const { cursor, moveTo } = hands;
  const step = useCallback(
    (by: 1 | -1) => {
      const next = only === null ? null : nextCell(cells, only, cursor, by);
      if (next === null || layout === null) return;
      leaveEnd();
      bringIntoView(box.current, layout, next);
      moveTo(next);
    },
    [only, cells, cursor, layout, moveTo, leaveEnd],
  );
  const fit = useCallback(() => setSize(null), [setSize]);
  const shown = { box, canvas, cells, counts, looks, palette, sized, scrolled };
  return { ...shown, only, setOnly, step, zoom, fit, hands };
}

function useSizedLayout(
  box: RefObject<HTMLElement | null>,
  { cells, columns, down, lead, runsOn }: Omit<LayoutInput, "size" | "width">,
  { heightMax, sizeMin }: { heightMax: number; sizeMin: number | undefined },
): {
  sized: SizedLayout | null;
  ratio: number;
  setSize: (size: number | null) => void;
  /** Whether nobody has chosen another size. */
  isFitted: boolean;
} {
  const [size, setSize] = useState<number | null>(null);
  const boxSize = useBoxSize(box);
  const sized = useMemo<SizedLayout | null>(() => {
    if (boxSize === null) return null;
    const input = { cells, columns, down, lead, runsOn, width: boxSize.width };
    const nominal = size ?? firstSize({ ...input, height: heightMax, sizeMin });
    // Whole device pixels, so that edges are sharp, and never more than there is room for.
    const whole = Math.max(1, Math.floor(nominal * boxSize.ratio)) / boxSize.ratio;
    return { nominal, layout: layoutOf({ ...input, size: whole }) };
  }, [boxSize, cells, columns, down, lead, runsOn, size, heightMax, sizeMin]);
  return { sized, ratio: boxSize?.ratio ?? 1, setSize, isFitted: size === null };
}

/** The cell that keys begin at: the first of the newest column, or the newest of all. */
function firstCell(
  startsAt: "right" | "bottom" | null,
  { cells, columns = 1, down, lead = 0 }: Omit<LayoutInput, "size" | "width">,
): number {
  if (startsAt === null) return 0;
  const ofColumn =
    down === undefined ? columns - 1 : Math.floor((cells + lead - 1) / down) * down - lead;
  const last = startsAt === "right" ? ofColumn : cells - 1;
  return Math.max(0, Math.min(cells - 1, last));
}

/**
 * Shows the newest cells, also when the box becomes narrower, until somebody moves about in the map.
 * Answers what says so where that is not done with pointer or keys inside the box.
 */
function useStayAtEnd(
  box: RefObject<HTMLElement | null>,
  layout: Layout | null,
  startsAt: "right" | "bottom" | null,
): () => void {
  const isLeft = useRef(false);
  const leave = useCallback(() => {
    isLeft.current = true;
  }, []);
  useEffect(() => {
    const element = box.current;
    for (const type of MOVING) element?.addEventListener(type, leave, { passive: true });
    return () => {
      for (const type of MOVING) element?.removeEventListener(type, leave);
    };
  }, [box, leave]);
  useLayoutEffect(() => {
    if (layout === null || box.current === null || isLeft.current) return;
    if (startsAt === "right") box.current.scrollLeft = box.current.scrollWidth;
    if (startsAt === "bottom") box.current.scrollTop = box.current.scrollHeight;
  }, [box, layout, startsAt]);
  return leave;
}
