import "./value-chart.css";
import { type ReactNode, useRef } from "react";
import { numberText } from "../../../src/kernel/metadata-value.ts";
import { useBoxSize } from "./use-box-size.ts";
import { chartText, type ChartValue, scaleOf } from "./value-scale.ts";
import { visibleText } from "./visible-text.ts";

const HEIGHT = 140;
/** Room for the dots at the edges. */
const EDGE = 6;
/** With more of them the dots would be a band. */
const DOTS_MAX = 120;

/** Numbers of things that stand in an order, from left to right, with the least and the greatest beside them. */
export function ValueChart(props: {
  label: string;
  unit: string | undefined;
  values: readonly ChartValue[];
}): ReactNode {
  const { label, unit, values } = props;
  const stage = useRef<HTMLDivElement>(null);
  const size = useBoxSize(stage);
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return null;
  const width = size?.width ?? 0;
  const { least, most, heightAt } = scaleOf(values.map(({ value }) => value));
  const at = (place: number): { x: number; y: number } => ({
    x: EDGE + (width - 2 * EDGE) * (values.length < 2 ? 0.5 : place / (values.length - 1)),
    y: EDGE + (HEIGHT - 2 * EDGE) * (1 - heightAt(values[place]?.value ?? 0)),
  });
  const dots = values.map((_, place) => at(place));
  return (
    <div className="value-chart" role="img" aria-label={chartText(label, unit, values)}>
      <div className="value-chart-label" aria-hidden="true">
        {visibleText(label)}{" "}
        {unit !== undefined && unit !== label && <span className="soft">{visibleText(unit)}</span>}
      </div>
      <div className="value-chart-body" aria-hidden="true">
        <div className="value-chart-axis soft">
          <span>{numberText(most, undefined)}</span>
          <span>{numberText(least, undefined)}</span>
        </div>
        <div className="value-chart-stage" ref={stage}>
          {width > 0 && (
            <svg width={width} height={HEIGHT}>
              <line
                className="value-chart-floor"
                x1={0}
                x2={width}
                y1={HEIGHT - 1}
                y2={HEIGHT - 1}
              />
              <polyline
                className="value-chart-line"
                points={dots.map(({ x, y }) => `${x},${y}`).join(" ")}
              />
              {values.length <= DOTS_MAX &&
                dots.map(({ x, y }, place) => (
                  <circle key={values[place]?.key} className="value-chart-dot" cx={x} cy={y} r={3}>
                    <title>{dotText(values[place], unit)}</title>
                  </circle>
                ))}
            </svg>
          )}
          <div className="value-chart-ends soft">
            <span>{visibleText(first.name)}</span>
            {values.length > 1 && <span>{visibleText(last.name)}</span>}
          </div>
        </div>
      </div>
    </div>
  );
}

function dotText(value: ChartValue | undefined, unit: string | undefined): string {
  if (value === undefined) return "";
  return `${visibleText(value.name)}: ${visibleText(numberText(value.value, unit))}`;
}
