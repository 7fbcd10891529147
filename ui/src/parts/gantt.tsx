import {
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { Link } from "wouter";
import "./gantt.css";
import { type GanttScale, marksOf, markText, placeOn } from "./gantt-scale.ts";
import { lookOf } from "./status-look.ts";
import { durationText } from "./time-text.ts";
import { useNow } from "./use-now.ts";

/** One stretch of work; it goes on while it has no end. */
export type GanttBar = { fromMs: number; toMs: number | null; state: string; title: string };

/** A stretch in which nothing was done, and what was waited for. */
export type GanttWait = {
  fromMs: number;
  toMs: number | null;
  kind: "upstream" | "worker" | "retry";
};

/** What happened to one thing, from left to right. */
export type GanttRow = {
  id: string;
  text: string;
  /** What tells it from others with the same text; the two share the room for its name. */
  detail?: string;
  /** Where it stands as a whole. */
  state?: string;
  href: string;
  bars: readonly GanttBar[];
  waits?: readonly GanttWait[];
};

/** Which of a row's links has the keyboard: 0 is its name, then its bars. */
type Place = { row: number; link: number };

const ROW_HEIGHT_PX = 36;
const ROWS_SEEN_MAX = 20;
/** Rows above and below those seen that are drawn too, so that scrolling shows no gap. */
const ROWS_SPARE = 6;
const MARKS_MAX = 6;

const WAIT_WORDS = {
  upstream: "waited for upstream",
  worker: "waited for a worker",
  retry: "waited for retry",
} as const;

/**
 * Work over time: a row for each thing, a bar for each attempt, thin lines for waiting. Only the rows
 * in sight are drawn, so that thousands stay smooth. The arrow keys move from link to link.
 */
export function Gantt(props: {
  label: string;
  rows: readonly GanttRow[];
  /** Where it begins; with the first bar unless told otherwise. */
  fromMs?: number;
  /** Where it ends; null while it goes on. With the last bar unless told otherwise. */
  toMs?: number | null;
}): ReactNode {
  const { label, rows } = props;
  const scale = useScale(props);
  const [scrolledPx, setScrolledPx] = useState(0);
  const [told, setTold] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const { place, onKeyDown, onFocus } = usePlace(rows, box, setScrolledPx);
  const seen = Math.min(rows.length, ROWS_SEEN_MAX);
  const first = Math.max(0, Math.floor(scrolledPx / ROW_HEIGHT_PX) - ROWS_SPARE);
  const drawn = rows.slice(first, first + seen + 2 * ROWS_SPARE);
  return (
    <figure className="gantt">
      <Axis scale={scale} />
      <div
        className="gantt-rows"
        ref={box}
        style={{ height: seen * ROW_HEIGHT_PX }}
        onScroll={(event) => setScrolledPx(event.currentTarget.scrollTop)}
      >
        <div
          role="grid"
          aria-label={label}
          aria-rowcount={rows.length}
          tabIndex={-1}
          onKeyDown={onKeyDown}
          style={{ height: rows.length * ROW_HEIGHT_PX }}
        >
          {drawn.map((row, index) => (
            <Row
              key={row.id}
              row={row}
              at={first + index}
              scale={scale}
              link={place.row === first + index ? place.link : null}
              onFocus={onFocus}
              tell={setTold}
            />
          ))}
        </div>
      </div>
      <figcaption className="gantt-caption">
        <p className="gantt-told">{told ?? "Point at a bar, or move with the arrow keys."}</p>
        <Legend />
      </figcaption>
    </figure>
  );
}

function useScale(props: Parameters<typeof Gantt>[0]): GanttScale {
  const now = useNow();
  const bars = props.rows.flatMap((row) => row.bars);
  const fromMs = props.fromMs ?? bars.reduce((least, bar) => Math.min(least, bar.fromMs), now);
  const toMs =
    props.toMs === undefined
      ? bars.reduce((most, bar) => Math.max(most, bar.toMs ?? now), fromMs)
      : (props.toMs ?? now);
  return { fromMs, toMs: Math.max(toMs, fromMs + 1) };
}

function Axis({ scale }: { scale: GanttScale }): ReactNode {
  return (
    <div className="gantt-axis" aria-hidden="true">
      <span className="gantt-label soft">since the start</span>
      <div className="gantt-track">
        {marksOf(scale, MARKS_MAX)
          .map((ms) => ({ ms, left: placeOn(scale, scale.fromMs + ms) }))
          .filter(({ left }) => left < 95)
          .map(({ ms, left }) => (
            <span key={ms} className="gantt-mark" style={{ left: `${left}%` }}>
              {markText(ms)}
            </span>
          ))}
      </div>
    </div>
  );
}

function Row(props: {
  row: GanttRow;
  at: number;
  scale: GanttScale;
  /** The link that has the keyboard, when it is in this row. */
  link: number | null;
  onFocus: (place: Place) => void;
  tell: (text: string | null) => void;
}): ReactNode {
  const { row, at, scale, link, onFocus, tell } = props;
  const { text, detail = "", state, href, bars, waits = [] } = row;
  const linkOf = (index: number) => ({
    href,
    tabIndex: link === index ? 0 : -1,
    "data-link": `${at}/${index}`,
  });
  return (
    <div
      role="row"
      aria-rowindex={at + 1}
      className="gantt-row"
      style={{ top: at * ROW_HEIGHT_PX, height: ROW_HEIGHT_PX }}
    >
      <div role="rowheader" className="gantt-label">
        {state !== undefined && <Sign state={state} />}
        <Link
          {...linkOf(0)}
          title={`${text} ${detail}`}
          onFocus={() => onFocus({ row: at, link: 0 })}
        >
          <span className="gantt-name">{detail === "" ? text : detail}</span>
          {detail !== "" && <span className="gantt-detail">{text}</span>}
          {state !== undefined && <span className="visually-hidden">, {lookOf(state).word}</span>}
        </Link>
      </div>
      <div role="gridcell" className="gantt-track">
        {waits.map((wait) => (
          <Wait key={`${wait.kind}${wait.fromMs}`} wait={wait} scale={scale} />
        ))}
        {bars.map((bar, index) => {
          const tellBar = (): void => tell(`${text} ${detail}: ${bar.title}`);
          return (
            <Link
              key={bar.fromMs}
              {...linkOf(index + 1)}
              aria-label={bar.title}
              className={`gantt-bar tone-${lookOf(bar.state).tone}`}
              data-state={bar.state}
              style={stretch(scale, bar)}
              onMouseEnter={tellBar}
              onFocus={() => {
                onFocus({ row: at, link: index + 1 });
                tellBar();
              }}
            >
              <span aria-hidden="true">{lookOf(bar.state).sign}</span>
            </Link>
          );
        })}
      </div>
    </div>
  );
}

function Sign({ state }: { state: string }): ReactNode {
  const { tone, sign, word } = lookOf(state);
  return (
    <span className={`gantt-sign tone-${tone}`} title={word} aria-hidden="true">
      {sign}
    </span>
  );
}

function Wait({ wait, scale }: { wait: GanttWait; scale: GanttScale }): ReactNode {
  const lastedMs = (wait.toMs ?? scale.toMs) - wait.fromMs;
  return (
    <span
      aria-hidden="true"
      className={`gantt-wait gantt-wait-${wait.kind}`}
      title={`${WAIT_WORDS[wait.kind]} for ${durationText(lastedMs)}`}
      style={stretch(scale, wait)}
    />
  );
}

function stretch(
  scale: GanttScale,
  { fromMs, toMs }: { fromMs: number; toMs: number | null },
): { left: string; width: string } {
  const left = placeOn(scale, fromMs);
  const right = placeOn(scale, toMs ?? scale.toMs);
  return { left: `${left}%`, width: `${Math.max(0, right - left)}%` };
}

const LEGEND = ["SUCCEEDED", "RUNNING", "FAILED", "LEASE_EXPIRED", "CANCELLED", "SKIPPED"] as const;

function Legend(): ReactNode {
  return (
    <ul className="gantt-legend" aria-label="Legend">
      {LEGEND.map((outcome) => (
        <li key={outcome}>
          <span
            aria-hidden="true"
            className={`gantt-bar tone-${lookOf(outcome).tone}`}
            data-state={outcome}
          />
          {lookOf(outcome).word}
        </li>
      ))}
      {(["upstream", "worker", "retry"] as const).map((kind) => (
        <li key={kind}>
          <span aria-hidden="true" className={`gantt-wait gantt-wait-${kind}`} />
          {WAIT_WORDS[kind]}
        </li>
      ))}
    </ul>
  );
}

/** Which link has the keyboard, and how the keys move it. */
function usePlace(
  rows: readonly GanttRow[],
  box: RefObject<HTMLDivElement | null>,
  scrolled: (px: number) => void,
) {
  const [wanted, setWanted] = useState<Place>({ row: 0, link: 0 });
  const [isMoved, setIsMoved] = useState(false);
  const row = Math.min(wanted.row, Math.max(0, rows.length - 1));
  const place: Place = { row, link: Math.min(wanted.link, rows[row]?.bars.length ?? 0) };
  useLayoutEffect(() => {
    if (!isMoved) return;
    const element = box.current?.querySelector(`[data-link="${place.row}/${place.link}"]`);
    if (element instanceof HTMLElement) element.focus({ preventScroll: true });
    setIsMoved(false);
  }, [isMoved, box, place.row, place.link]);
  const onKeyDown = (event: KeyboardEvent): void => {
    const next = placeAfter(event.key, place, rows);
    if (next === null) return;
    event.preventDefault();
    const element = box.current;
    if (element !== null) {
      // Only rows in sight are there to be focused.
      const topPx = next.row * ROW_HEIGHT_PX;
      const lowestPx = topPx - element.clientHeight + ROW_HEIGHT_PX;
      element.scrollTop = Math.min(Math.max(element.scrollTop, lowestPx), topPx);
      scrolled(element.scrollTop);
    }
    setWanted(next);
    setIsMoved(true);
  };
  return { place, onKeyDown, onFocus: setWanted };
}

/** Where a key leads; null for a key that means nothing here. */
function placeAfter(key: string, { row, link }: Place, rows: readonly GanttRow[]): Place | null {
  const last = rows.length - 1;
  const bars = rows[row]?.bars.length ?? 0;
  switch (key) {
    case "ArrowDown":
      return { row: Math.min(row + 1, last), link };
    case "ArrowUp":
      return { row: Math.max(row - 1, 0), link };
    case "ArrowRight":
      return { row, link: Math.min(link + 1, bars) };
    case "ArrowLeft":
      return { row, link: Math.max(link - 1, 0) };
    case "PageDown":
      return { row: Math.min(row + ROWS_SEEN_MAX, last), link };
    case "PageUp":
      return { row: Math.max(row - ROWS_SEEN_MAX, 0), link };
    case "Home":
      return { row: 0, link: 0 };
    case "End":
      return { row: last, link: 0 };
    default:
      return null;
  }
}
