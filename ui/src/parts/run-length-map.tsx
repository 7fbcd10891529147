import { type ReactNode, useId } from "react";
import { MapAxis } from "./map-axes.tsx";
import type { Layout, MapSelection, MapView } from "./map-geometry.ts";
import { MapLegend } from "./map-legend.tsx";
import { MapOutlines, MapSizes, tipPlace } from "./map-surface.tsx";
import { MapTip } from "./map-tip.tsx";
import { lookOf } from "./status-look.ts";
import { countText } from "./time-text.ts";
import { type MapModel, useMap } from "./use-map.ts";
import "./run-length-map.css";

/** A map of cells, each in one of a few states, of which there may be a million. */
export type RunLengthMapProps = {
  /** What the map shows, for those who cannot see it. */
  label: string;
  /** What a cell is: `chunk`. */
  noun: string;
  cells: number;
  states: readonly string[];
  /** Place in `states` and number of cells, in turn, from the first cell on. */
  lengths: readonly number[];
  /** How many cells are in a row; without it as many as there is room for. */
  columns?: number | undefined;
  /** Instead of that, how many cells are in a column: the map goes on along the page. */
  down?: number | undefined;
  /** Blank places before the first cell. */
  lead?: number | undefined;
  /** With `columns` or `down`: one line runs on into the next, as the weeks of a calendar do. */
  runsOn?: boolean | undefined;
  /** Cells are at first no smaller than so many pixels, however many there are. */
  sizeMin?: number | undefined;
  /** The end that is seen at first, where the newest cells are; the beginning where there is none. */
  startsAt?: "right" | "bottom" | null | undefined;
  nameOf?: ((index: number) => string) | undefined;
  /** More about a cell, asked for when the pointer or the cursor rests on it. */
  detailsOf?: ((index: number, signal: AbortSignal) => Promise<ReactNode>) | undefined;
  onOpen?: ((index: number) => void) | undefined;
  selection?: MapSelection | null | undefined;
  /** With it cells can be selected: by dragging, or by shift and the arrow keys. */
  onSelect?: ((selection: MapSelection | null) => void) | undefined;
  rowLabel?: ((row: number) => string) | undefined;
  columnLabel?: ((column: number) => string) | undefined;
  /** Pixels between the labels of columns, where they are short. */
  columnLabelWidth?: number | undefined;
  /** Hears which part is seen. */
  onView?: ((view: MapView, layout: Layout) => void) | undefined;
  /** A cell that is outlined, and brought into view when it is another one. */
  marked?: number | null | undefined;
  heightMax?: number | undefined;
};

/** How high the part is that scrolls, in pixels, unless the page says otherwise. */
const HEIGHT_MAX = 420;

/** Draws the map, with its legend, and lets it be looked into by pointer and by keyboard. */
export function RunLengthMap(props: RunLengthMapProps): ReactNode {
  const { noun, states, heightMax = HEIGHT_MAX } = props;
  const map = useMap(props, heightMax);
  const { counts, looks, palette, only, cells, hands, sized } = map;
  const nameOf = props.nameOf ?? ((index: number) => `${noun} ${countText(index)}`);
  const stateAt = (index: number): string => states[cells[index] ?? 0] ?? "";
  const pointed = hands.pointed !== null && hands.pointed < cells.length ? hands.pointed : null;
  return (
    <div className="map">
      <div className="map-bar">
        <MapLegend
          {...{ states, counts, looks, palette, only }}
          onOnly={map.setOnly}
          onStep={map.step}
        />
        <MapSizes onZoom={map.zoom} onFit={map.fit} />
      </div>
      <MapFrame {...{ props, map, pointed, heightMax }} />
      <p className="visually-hidden" aria-live="polite">
        {hands.isByKeys && pointed !== null
          ? `${nameOf(pointed)}, ${lookOf(stateAt(pointed)).word}`
          : ""}
      </p>
      {sized !== null && pointed !== null && (
        <MapTip
          place={tipPlace(map.box.current, sized.layout, pointed)}
          name={nameOf(pointed)}
          state={stateAt(pointed)}
          detailsOf={props.detailsOf}
        />
      )}
    </div>
  );
}

/** The part that scrolls, with its labels. */
function MapFrame(parts: {
  props: RunLengthMapProps;
  map: MapModel;
  pointed: number | null;
  heightMax: number;
}): ReactNode {
  const { props, map, pointed, heightMax } = parts;
  const { rowLabel, columnLabel, selection = null, marked = null } = props;
  const { sized, scrolled } = map;
  const layout = sized?.layout ?? null;
  const hintId = useId();
  const hasAxes = rowLabel !== undefined || columnLabel !== undefined;
  const axis =
    layout === null || scrolled === null ? null : { layout, view: scrolled.view, scrolled };
  return (
    <div className={hasAxes ? "map-frame map-with-axes" : "map-frame"}>
      {axis !== null && columnLabel !== undefined && (
        <MapAxis
          along="columns"
          {...axis}
          scrolled={axis.scrolled.x}
          extent={axis.scrolled.width}
          labelOf={columnLabel}
          apart={props.columnLabelWidth}
        />
      )}
      {axis !== null && rowLabel !== undefined && (
        <MapAxis
          along="rows"
          {...axis}
          scrolled={axis.scrolled.y}
          extent={axis.scrolled.height}
          labelOf={rowLabel}
        />
      )}
      {/* A map is moved about in by its own keys, which are told with it. */}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/no-noninteractive-tabindex */}
      <div
        ref={map.box}
        className={layout?.isDown === true ? "map-box" : "map-box map-flows"}
        role="application"
        aria-label={props.label}
        aria-describedby={hintId}
        tabIndex={0}
        // As high as the cells, and a bar to scroll with below them.
        style={layout === null ? { height: heightMax } : { maxHeight: heightMax }}
        {...map.hands.handlers}
      >
        {layout !== null && (
          <div
            className="map-content"
            style={{ width: layout.columns * layout.size, height: layout.rows * layout.size }}
          >
            <canvas ref={map.canvas} className="map-canvas" />
            <MapOutlines {...{ layout, selection, marked, pointed }} />
          </div>
        )}
      </div>
      <p id={hintId} className="visually-hidden">
        {hintOf(props)}
      </p>
    </div>
  );
}

function hintOf({ cells, noun, onSelect }: RunLengthMapProps): string {
  const select =
    onSelect === undefined ? "" : ", shift and the arrow keys select, Escape ends that";
  return (
    `${countText(cells)} cells. Arrow keys move from ${noun} to ${noun}, Enter opens one, ` +
    `plus and minus change the size of the cells${select}.`
  );
}
