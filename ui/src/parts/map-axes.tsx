import type { ReactNode } from "react";
import type { Layout, MapView } from "./map-geometry.ts";

/** Pixels between two labels, so that they can be read. */
const ROW_LABEL_HEIGHT = 16;
const COLUMN_LABEL_WIDTH = 72;

/** The labels along one side of a map: as many as can be read, in step with what is seen. */
export function MapAxis(props: {
  along: "rows" | "columns";
  layout: Layout;
  view: MapView;
  /** How far the map is scrolled along this axis. */
  scrolled: number;
  labelOf: (place: number) => string;
  /** Pixels between two labels. */
  apart?: number | undefined;
}): ReactNode {
  const { along, layout, view, scrolled, labelOf } = props;
  const isRows = along === "rows";
  const { apart = isRows ? ROW_LABEL_HEIGHT : COLUMN_LABEL_WIDTH } = props;
  const step = Math.ceil(apart / layout.size);
  const first = Math.ceil((isRows ? view.fromRow : view.fromColumn) / step) * step;
  const last = isRows ? view.toRow : view.toColumn;
  const places: number[] = [];
  for (let place = first; place <= last; place += step) places.push(place);
  return (
    <div className={`map-axis map-axis-${along}`} aria-hidden="true">
      {places.map((place) => {
        const offset = place * layout.size - scrolled;
        return (
          <span key={place} style={isRows ? { top: offset } : { left: offset }}>
            {labelOf(place)}
          </span>
        );
      })}
    </div>
  );
}
