import uPlot from "uplot";
import { axisText, clockText, type PlotSeries } from "./plot-data.ts";
import type { Tone } from "./status-look.ts";

/** The tokens that a plot is drawn with. */
export const PLOT_TOKENS = [
  "--text-soft",
  "--line",
  "--surface",
  "--map-succeeded",
  "--map-running",
  "--line-strong",
  "--map-stale",
  "--map-failed",
  "--map-odd",
] as const;

/** The colours of the tokens in the theme that is shown. */
export type PlotColours = Readonly<Record<(typeof PLOT_TOKENS)[number], string>>;

const TONE_TOKENS: Readonly<Record<Tone, keyof PlotColours>> = {
  good: "--map-succeeded",
  busy: "--map-running",
  wait: "--line-strong",
  warn: "--map-stale",
  bad: "--map-failed",
  odd: "--map-odd",
};

/** The tones of series that have none of their own, in order. */
const TONES: readonly Tone[] = ["busy", "warn", "odd", "good", "wait"];

/** Series beyond the first are dashed, so that they are told apart without colour too. */
const DASHES: readonly (readonly number[])[] = [[], [5, 3], [2, 2], [8, 3, 2, 3]];

/** The tone of a series, and what its line is dashed with. */
export function lookOfSeries(
  { tone }: PlotSeries,
  index: number,
): { tone: Tone; dash: readonly number[] } {
  return {
    tone: tone ?? TONES[index % TONES.length] ?? "busy",
    dash: DASHES[index % DASHES.length] ?? [],
  };
}

/** What is drawn, and within which time; the size is set when it is known. */
export type PlotScene = {
  series: readonly PlotSeries[];
  colours: PlotColours;
  from: number | null;
  to: number | null;
  width: number;
  height: number;
  /** Told which row of the table the pointer is at; null when it has left. */
  onPoint: (row: number | null) => void;
};

/** A plot as uPlot wants it. */
export function plotOptions(scene: PlotScene): uPlot.Options {
  const { colours, series, width, height, onPoint } = scene;
  // Text on a canvas is in a font of its own unless it is told which.
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = {
    font,
    stroke: colours["--text-soft"],
    ticks: { show: false },
    border: { show: false },
  } satisfies uPlot.Axis;
  const grid = { stroke: colours["--line"], width: 1 };
  return {
    width,
    height,
    // Only the canvas is wanted: what it says stands beside it as text.
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { show: false },
    },
    padding: [8, 8, 0, 0],
    scales: {
      x: { time: true, range: (_, least, most) => [scene.from ?? least, scene.to ?? most] },
      y: { range: (_, __, most) => [0, rangeEnd(most)] },
    },
    axes: [
      {
        ...axis,
        size: 22,
        gap: 4,
        space: 64,
        grid: { show: false },
        values: (_, splits) => splits.map((at) => clockText(at)),
      },
      {
        ...axis,
        size: 38,
        gap: 6,
        space: 26,
        grid,
        incrs: stepsOf,
        values: (_, splits) => splits.map(axisText),
      },
    ],
    series: [
      {},
      ...inDrawingOrder(series.map((each, index) => seriesOptions(each, index, colours))),
    ],
    hooks: { setCursor: [({ cursor }) => onPoint(cursor.idx ?? null)] },
  };
}

const STEPS = Array.from({ length: 40 }, (_, index) => {
  const step = [1, 2, 5][index % 3] ?? 1;
  return step * 10 ** (Math.floor(index / 3) - 3);
});
const WHOLE_STEPS = STEPS.filter((step) => step >= 1);

/** Between whole numbers there is nothing to read off. */
function stepsOf({ data }: uPlot): number[] {
  const [, ...columns] = data;
  const isWhole = columns.every((column) =>
    [...column].every((value) => value === null || value === undefined || Number.isInteger(value)),
  );
  return isWhole ? WHOLE_STEPS : STEPS;
}

/** What is drawn last lies on top: of bars that stand on each other the highest comes first. */
export function inDrawingOrder<Item>(columns: readonly Item[]): Item[] {
  return columns.toReversed();
}

/** A little above the greatest value, and never nothing. */
function rangeEnd(most: number | null): number {
  return most === null || most <= 0 ? 1 : most * 1.08;
}

function seriesOptions(series: PlotSeries, index: number, colours: PlotColours): uPlot.Series {
  const { tone, dash } = lookOfSeries(series, index);
  const stroke = colours[TONE_TOKENS[tone]];
  const { bars, stepped } = uPlot.paths;
  if (series.kind === "bar") {
    const fill = tone === "bad" ? (self: uPlot) => hatched(self, stroke, colours) : stroke;
    return {
      label: series.name,
      width: 0,
      fill,
      points: { show: false },
      ...(bars === undefined ? {} : { paths: bars({ align: 1, size: [0.82, 16, 1] }) }),
    };
  }
  return {
    label: series.name,
    stroke,
    width: 1.5,
    dash: [...dash],
    // A line of one point would not be seen.
    points: { size: 6, show: (self, at) => countOf(self.data[at]) === 1 },
    spanGaps: true,
    ...(index === 0 ? { fill: translucent(stroke) } : {}),
    // What was seen holds until something else is.
    ...(stepped === undefined ? {} : { paths: stepped({ align: 1 }) }),
  };
}

function countOf(values: uPlot.AlignedData[number] | undefined): number {
  return [...(values ?? [])].filter((value) => (value ?? null) !== null).length;
}

function translucent(colour: string): string {
  return colour.replace(/^rgb\((.+)\)$/, "rgba($1, 0.14)");
}

/** Stripes, which are told from a plain bar without colour. */
function hatched(self: uPlot, colour: string, colours: PlotColours): CanvasPattern | string {
  const tile = document.createElement("canvas");
  const size = 6 * devicePixelRatio;
  tile.width = size;
  tile.height = size;
  const drawing = tile.getContext("2d");
  if (drawing === null) return colour;
  drawing.fillStyle = colour;
  drawing.fillRect(0, 0, size, size);
  drawing.strokeStyle = colours["--surface"];
  drawing.lineWidth = devicePixelRatio;
  drawing.beginPath();
  for (const shift of [-size, 0, size]) {
    drawing.moveTo(shift, size);
    drawing.lineTo(shift + size, 0);
  }
  drawing.stroke();
  return self.ctx.createPattern(tile, "repeat") ?? colour;
}
