import type { ReactNode } from "react";
import {
  type Layout,
  type MapSelection,
  type MapView,
  placeOf,
  selectedViews,
} from "./map-geometry.ts";
import type { TipPlace } from "./map-tip.tsx";

/** Cells from this size on are outlined inside, so that the map's edge cuts nothing off. */
const INSET_FROM = 8;

/** The outlines over the picture of a map: what is selected, what is open, what is pointed at. */
export function MapOutlines(props: {
  layout: Layout;
  selection: MapSelection | null;
  marked: number | null;
  pointed: number | null;
}): ReactNode {
  const { layout, selection, marked, pointed } = props;
  const ofCell = (index: number | null): MapView[] =>
    index === null || index >= layout.cells ? [] : [viewOfCell(layout, index)];
  const outlines = [
    ...(selection === null ? [] : selectedViews(layout, selection)).map(
      (view) => ["selected", view] as const,
    ),
    ...ofCell(marked).map((view) => ["marked", view] as const),
    ...ofCell(pointed).map((view) => ["pointed", view] as const),
  ];
  const { size } = layout;
  const inset = size >= INSET_FROM ? " map-inset" : "";
  return outlines.map(([kind, view]) => (
    <div
      key={`${kind} ${view.fromRow} ${view.fromColumn}`}
      className={`map-outline map-${kind}${inset}`}
      style={{
        left: view.fromColumn * size,
        top: view.fromRow * size,
        width: (view.toColumn - view.fromColumn + 1) * size,
        height: (view.toRow - view.fromRow + 1) * size,
      }}
    />
  ));
}

function viewOfCell(layout: Layout, index: number): MapView {
  const { row, column } = placeOf(layout, index);
  return { fromRow: row, toRow: row, fromColumn: column, toColumn: column };
}

/** Buttons that change the size of the cells. */
export function MapSizes(props: { onZoom: (step: 1 | -1) => void; onFit: () => void }): ReactNode {
  return (
    <span className="row" role="group" aria-label="Size of the cells">
      {([-1, 1] as const).map((step) => (
        <button
          key={step}
          type="button"
          className="button map-button"
          aria-label={step === 1 ? "Larger cells" : "Smaller cells"}
          onClick={() => props.onZoom(step)}
        >
          {step === 1 ? "+" : "−"}
        </button>
      ))}
      <button type="button" className="button map-button" onClick={props.onFit}>
        Fit
      </button>
    </span>
  );
}

/** Scrolls so far that the cell is seen, with some of what is around it. */
export function bringIntoView(box: HTMLElement | null, layout: Layout, index: number): void {
  if (box === null || index >= layout.cells) return;
  const { row, column } = placeOf(layout, index);
  const top = row * layout.size;
  const left = column * layout.size;
  if (top < box.scrollTop || top + layout.size > box.scrollTop + box.clientHeight) {
    box.scrollTop = top - box.clientHeight / 2;
  }
  if (left < box.scrollLeft || left + layout.size > box.scrollLeft + box.clientWidth) {
    box.scrollLeft = left - box.clientWidth / 2;
  }
}

/** Where a cell is in the window, for what is told beside it. */
export function tipPlace(box: HTMLElement | null, layout: Layout, index: number): TipPlace {
  const { row, column } = placeOf(layout, index);
  const { left = 0, top = 0 } = box?.getBoundingClientRect() ?? {};
  return {
    index,
    left: left + column * layout.size - (box?.scrollLeft ?? 0),
    top: top + row * layout.size - (box?.scrollTop ?? 0),
    size: layout.size,
  };
}
