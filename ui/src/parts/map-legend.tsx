import { type ReactNode, useEffect, useRef } from "react";
import type { MapLook } from "./map-look.ts";
import { drawTile, type Palette } from "./draw-tile.ts";
import { lookOf } from "./status-look.ts";
import { countText } from "./time-text.ts";

/** The side of a sample in the legend, in pixels of the page. */
const SAMPLE_SIZE = 14;

/** The states of a map with how many cells are in each; pressing one makes all others faint. */
export function MapLegend(props: {
  states: readonly string[];
  counts: readonly number[];
  looks: readonly MapLook[];
  palette: Palette | null;
  only: number | null;
  onOnly: (state: number | null) => void;
  /** Goes to the next (1) or the previous (-1) cell in the state that is picked out. */
  onStep: (step: 1 | -1) => void;
}): ReactNode {
  const { states, counts, looks, palette, only, onOnly, onStep } = props;
  const word = only === null ? "" : lookOf(states[only] ?? "").word;
  return (
    <div className="map-legend" role="group" aria-label="States: press one to see only it">
      {states.map((state, index) =>
        counts[index] === 0 && only !== index ? null : (
          <button
            key={state}
            type="button"
            className="map-legend-entry"
            aria-pressed={only === index}
            onClick={() => onOnly(only === index ? null : index)}
          >
            <Sample look={looks[index]} fill={palette?.fills[index]} palette={palette} />
            {lookOf(state).word} <span className="map-count">{countText(counts[index] ?? 0)}</span>
          </button>
        ),
      )}
      {only !== null && (counts[only] ?? 0) > 0 && (
        <span className="row">
          <button type="button" className="button map-button" onClick={() => onStep(-1)}>
            <span aria-hidden="true">◂</span> Previous {word}
          </button>
          <button type="button" className="button map-button" onClick={() => onStep(1)}>
            Next {word} <span aria-hidden="true">▸</span>
          </button>
        </span>
      )}
    </div>
  );
}

function Sample(props: {
  look: MapLook | undefined;
  fill: string | undefined;
  palette: Palette | null;
}): ReactNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { look, fill, palette } = props;
  useEffect(() => {
    const context = canvas.current?.getContext("2d") ?? null;
    if (context === null || look === undefined || fill === undefined || palette === null) return;
    const size = Math.round(SAMPLE_SIZE * devicePixelRatio);
    context.canvas.width = size;
    context.canvas.height = size;
    drawTile(context, { fill, mark: look.mark, size, palette });
  }, [look, fill, palette]);
  return <canvas ref={canvas} className="map-sample" aria-hidden="true" />;
}
