import "uplot/dist/uPlot.min.css";
import "./plot.css";
import { type ReactNode, type RefObject, useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import {
  clockText,
  plotText,
  type PlotSeries,
  type PlotTable,
  stackedTable,
  summaryOf,
  tableOf,
  valueText,
} from "./plot-data.ts";
import {
  inDrawingOrder,
  lookOfSeries,
  PLOT_TOKENS,
  type PlotColours,
  plotOptions,
} from "./plot-options.ts";
import { useColours } from "./use-colours.ts";

/**
 * Values by time: bars stand on each other, a line holds its value until the next. Beside the
 * picture stands what it comes to, or what it is at the pointer.
 */
export function Plot(props: {
  label: string;
  unit: string;
  series: readonly PlotSeries[];
  height?: number;
  /** The time that is shown, in seconds since the start of 1970; all that there is when left out. */
  from?: number;
  to?: number;
}): ReactNode {
  const { label, unit, series, height = 120, from, to } = props;
  const stage = useRef<HTMLDivElement>(null);
  const [row, setRow] = useState<number | null>(null);
  const table = useMemo(() => tableOf(series, from, to), [series, from, to]);
  const colours = useColours(stage, PLOT_TOKENS);
  usePicture(stage, { series, table, colours, height, from, to, onPoint: setRow });
  const isEmpty = table[0].length === 0;
  return (
    <figure className="plot">
      <figcaption className="plot-caption">
        <span className="plot-label">
          {label} <span className="soft">{unit}</span>
        </span>
        <Legend unit={unit} series={series} table={table} row={row} />
      </figcaption>
      <div
        className="plot-stage"
        ref={stage}
        role="img"
        aria-label={plotText(label, unit, series, table)}
        style={{ height: `${height}px` }}
      >
        {isEmpty && (
          <p className="plot-empty" aria-hidden="true">
            No data in this period
          </p>
        )}
      </div>
    </figure>
  );
}

function Legend(props: {
  unit: string;
  series: readonly PlotSeries[];
  table: PlotTable;
  row: number | null;
}): ReactNode {
  const { series, table, row } = props;
  const [times, ...columns] = table;
  const at = row === null ? undefined : times[row];
  return (
    <ul className="plot-legend">
      {series.map((each, index) => (
        <li key={each.name}>
          <Swatch series={each} index={index} />
          {each.name}{" "}
          {at === undefined ? (
            <Summary column={columns[index] ?? []} />
          ) : (
            <strong>{pointText(columns[index] ?? [], row ?? 0, each)}</strong>
          )}
        </li>
      ))}
      <li className="soft plot-at">{at === undefined ? "" : clockText(at, true)}</li>
    </ul>
  );
}

function Summary({ column }: { column: readonly (number | null)[] }): ReactNode {
  const summary = summaryOf(column);
  if (summary === null) return <span className="soft">–</span>;
  return (
    <>
      <strong>{valueText(summary.last, "")}</strong>{" "}
      <span className="soft">
        min {valueText(summary.least, "")}, max {valueText(summary.most, "")}
      </span>
    </>
  );
}

/** What a series is at the pointer; a line is still what it last was. */
function pointText(column: readonly (number | null)[], row: number, { kind }: PlotSeries): string {
  const known =
    kind === "bar" ? column[row] : column.slice(0, row + 1).findLast((value) => value !== null);
  return known === null || known === undefined ? "–" : valueText(known, "");
}

function Swatch({ series, index }: { series: PlotSeries; index: number }): ReactNode {
  const { tone, dash } = lookOfSeries(series, index);
  const kind = series.kind ?? "line";
  const look = kind === "bar" ? "bar" : dash.length === 0 ? "line" : "dashed";
  return <span aria-hidden="true" className={`plot-swatch plot-swatch-${look} tone-${tone}`} />;
}

type Picture = {
  series: readonly PlotSeries[];
  table: PlotTable;
  colours: PlotColours | null;
  height: number;
  from: number | undefined;
  to: number | undefined;
  onPoint: (row: number | null) => void;
};

/** Draws into an element, as wide as it is; drawn anew when anything but its values changes. */
function usePicture(stage: RefObject<HTMLDivElement | null>, picture: Picture): void {
  const { series, table, colours, height, from, to, onPoint } = picture;
  const plot = useRef<uPlot | null>(null);
  // What makes another plot of it; new values alone only make it draw again.
  const shape = JSON.stringify([series.map(({ name, kind, tone }) => [name, kind, tone]), height]);
  const latest = useRef({ series, table, from, to });
  useEffect(() => {
    latest.current = { series, table, from, to };
    plot.current?.setData(dataOf(table, series));
  }, [series, table, from, to]);
  useEffect(() => {
    const element = stage.current;
    if (element === null || colours === null) return undefined;
    const scene = latest.current;
    const drawn = new uPlot(
      plotOptions({
        series: scene.series,
        colours,
        // Looked up each time it is drawn, as the time that is shown moves on.
        get from() {
          return latest.current.from ?? null;
        },
        get to() {
          return latest.current.to ?? null;
        },
        width: element.clientWidth,
        height,
        onPoint,
      }),
      dataOf(scene.table, scene.series),
      element,
    );
    plot.current = drawn;
    const sizes = new ResizeObserver(() => {
      drawn.setSize({ width: element.clientWidth, height });
    });
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [stage, shape, colours, height, onPoint]);
}

function dataOf(table: PlotTable, series: readonly PlotSeries[]): uPlot.AlignedData {
  const [times, ...columns] = stackedTable(table, series);
  return [times, ...inDrawingOrder(columns)];
}
