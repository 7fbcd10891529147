import { type KeyboardEvent, type ReactNode, useRef, useState } from "react";
import { Link } from "wouter";
import { mapLookOf } from "./map-look.ts";
import { lookOf } from "./status-look.ts";
import "./strip.css";
import { countText } from "./time-text.ts";

/** One cell of a strip: where it stands, what it is in words, and where it leads. */
export type StripCell = { state: string; text: string; href?: string };

/**
 * Up to some hundred cells in a row, each told by colour and mark. The strip is one stop of the
 * keyboard: arrows go from cell to cell, Enter follows the one that is reached.
 */
export function Strip(props: {
  label: string;
  cells: readonly StripCell[];
  /** How many there are in each state, when a cell stands for more than one; else cells count. */
  counts?: Readonly<Record<string, number>>;
  /** The cell that is open below. */
  marked?: number | null;
}): ReactNode {
  const { label, cells, marked = null } = props;
  const [at, setAt] = useState(0);
  const [shown, setShown] = useState<number | null>(null);
  const list = useRef<HTMLOListElement>(null);
  const current = Math.min(at, cells.length - 1);
  const go = (event: KeyboardEvent): void => {
    const next = nextAt(event.key, current, cells.length);
    if (next === null) return;
    event.preventDefault();
    setAt(next);
    list.current?.querySelectorAll<HTMLElement>(".strip-cell")[next]?.focus();
  };
  return (
    <div className="strip">
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions */}
      <ol
        ref={list}
        aria-label={label}
        className="strip-cells"
        onKeyDown={go}
        onMouseLeave={() => setShown(null)}
      >
        {cells.map((cell, index) => (
          // A cell has no name but its place.
          // oxlint-disable-next-line react/no-array-index-key
          <li key={index} onMouseEnter={() => setShown(index)}>
            <Cell
              cell={cell}
              isStop={index === current}
              isMarked={index === marked}
              onFocus={() => {
                setAt(index);
                setShown(index);
              }}
            />
          </li>
        ))}
      </ol>
      <div className="strip-foot">
        <Legend cells={cells} counts={props.counts} />
        <span className="strip-text" aria-hidden="true">
          {shown === null ? "" : cells[shown]?.text}
        </span>
      </div>
    </div>
  );
}

function nextAt(key: string, current: number, count: number): number | null {
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return Math.min(count - 1, current + 1);
    case "ArrowLeft":
    case "ArrowUp":
      return Math.max(0, current - 1);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}

function Cell(props: {
  cell: StripCell;
  isStop: boolean;
  isMarked: boolean;
  onFocus: () => void;
}): ReactNode {
  const { cell, isStop, isMarked, onFocus } = props;
  const { mark, colour } = mapLookOf(cell.state);
  const common = {
    className: `strip-cell strip-${mark}${isMarked ? " strip-marked" : ""}`,
    style: { "--fill": `var(${colour})` } as Record<string, string>,
    "aria-label": cell.text,
    tabIndex: isStop ? 0 : -1,
    onFocus,
  };
  if (cell.href === undefined) return <span {...common} role="img" />;
  return <Link {...common} href={cell.href} aria-current={isMarked ? "true" : undefined} />;
}

function Legend(props: {
  cells: readonly StripCell[];
  counts: Readonly<Record<string, number>> | undefined;
}): ReactNode {
  const counted = new Map<string, number>();
  for (const { state } of props.cells) counted.set(state, (counted.get(state) ?? 0) + 1);
  const counts = props.counts === undefined ? [...counted] : Object.entries(props.counts);
  return (
    <ul className="strip-legend" aria-label="What the cells mean">
      {counts.map(([state, count]) => {
        const { mark, colour } = mapLookOf(state);
        return (
          <li key={state}>
            <span
              className={`strip-cell strip-${mark}`}
              style={{ "--fill": `var(${colour})` } as Record<string, string>}
              aria-hidden="true"
            />{" "}
            {lookOf(state).word} {countText(count)}
          </li>
        );
      })}
    </ul>
  );
}
