import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { lookOf } from "./status-look.ts";
import {
  axisLabels,
  leftOf,
  MARK_PIXELS,
  type Placed,
  placeMarks,
  type Scale,
} from "./time-line-scale.ts";
import { useNow } from "./use-now.ts";
import "./time-line.css";

/** The room that the word at the present moment takes. */
const NOW_PIXELS = 40;

/** Something on a time line: at a moment, or from one to another. */
export type TimeLineMark = {
  id: string;
  at: string;
  /** The end of what lasts; left out for a moment. */
  until?: string;
  state: string;
  title: string;
  href?: string;
};

/** From the first to the last of some marks, with room at both ends. */
function spanOf(marks: readonly TimeLineMark[]): { fromMs: number; toMs: number } {
  const ends = marks.flatMap(({ at, until = at }) => [Date.parse(at), Date.parse(until)]);
  const [fromMs, toMs] = [Math.min(...ends), Math.max(...ends)];
  const marginMs = Math.max(30_000, (toMs - fromMs) * 0.03);
  return { fromMs: fromMs - marginMs, toMs: toMs + marginMs };
}

/** Moments on an axis of time, of which there is at least one: one stop for the keyboard, whose arrows go from mark to mark. */
export function TimeLine(props: {
  label: string;
  marks: readonly TimeLineMark[];
  /** The mark that is looked at. */
  current?: string | null;
}): ReactNode {
  const { label, marks, current = null } = props;
  const [box, width] = useWidth();
  const scale: Scale = { ...spanOf(marks), width };
  const inOrder = marks.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
  const moments = inOrder.filter(({ until, at }) => until === undefined || until === at);
  const stretches = inOrder.filter(({ until, at }) => until !== undefined && until !== at);
  const { placed, crowds, lanes } = placeMarks(moments, scale);
  const stops = [...stretches.map(({ id }) => id), ...placed.map(({ mark }) => mark.id)];
  const stop = current !== null && stops.includes(current) ? current : stops.at(-1);
  const tabIndexOf = (id: string): number => (id === stop ? 0 : -1);
  return (
    <div className="time-line" ref={box}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions */}
      <ol
        aria-label={label}
        className="time-line-marks"
        style={{ height: `${lanes * MARK_PIXELS + (crowds.length > 0 ? 20 : 0) + 12}px` }}
        onKeyDown={goAlong}
      >
        {stretches.map((mark) => (
          <Stretch
            key={mark.id}
            mark={mark}
            scale={scale}
            isCurrent={mark.id === current}
            tabIndex={tabIndexOf(mark.id)}
          />
        ))}
        {placed.map((each) => (
          <Moment
            key={each.mark.id}
            placed={each}
            isCurrent={each.mark.id === current}
            tabIndex={tabIndexOf(each.mark.id)}
          />
        ))}
        {crowds.map(({ left, count }) => (
          <li
            key={`crowd-${left}`}
            className="time-line-crowd"
            style={{ left: `${left}px`, bottom: `${lanes * MARK_PIXELS + 10}px` }}
          >
            +{count}
          </li>
        ))}
      </ol>
      <Now scale={scale} />
      <Axis scale={scale} />
    </div>
  );
}

function Now({ scale }: { scale: Scale }): ReactNode {
  const nowMs = useNow();
  if (nowMs <= scale.fromMs || nowMs >= scale.toMs) return null;
  const left = leftOf(nowMs, scale);
  const isAtEnd = left > scale.width - NOW_PIXELS;
  return (
    <div
      className={`time-line-now ${isAtEnd ? "time-line-now-late" : ""}`}
      style={{ left: `${left}px` }}
    >
      <span>now</span>
    </div>
  );
}

function Axis({ scale }: { scale: Scale }): ReactNode {
  return (
    <div className="time-line-axis" aria-hidden="true">
      {axisLabels(scale).map(({ left, text }) => (
        <span key={left} style={{ left: `${left}px` }}>
          {text}
        </span>
      ))}
    </div>
  );
}

function Moment(props: {
  placed: Placed<TimeLineMark>;
  isCurrent: boolean;
  tabIndex: number;
}): ReactNode {
  const { mark, left, lane } = props.placed;
  return (
    <li
      className={`time-line-mark tone-${lookOf(mark.state).tone}`}
      style={{ left: `${left}px`, bottom: `${lane * MARK_PIXELS + 10}px` }}
    >
      <Target mark={mark} isCurrent={props.isCurrent} tabIndex={props.tabIndex}>
        {lookOf(mark.state).sign}
      </Target>
    </li>
  );
}

function Stretch(props: {
  mark: TimeLineMark;
  scale: Scale;
  isCurrent: boolean;
  tabIndex: number;
}): ReactNode {
  const { mark, scale } = props;
  const left = leftOf(Date.parse(mark.at), scale);
  const right = leftOf(Date.parse(mark.until ?? mark.at), scale);
  return (
    <li
      className={`time-line-stretch tone-${lookOf(mark.state).tone}`}
      style={{ left: `${left}px`, width: `${Math.max(8, right - left)}px` }}
    >
      <Target mark={mark} isCurrent={props.isCurrent} tabIndex={props.tabIndex}>
        {null}
      </Target>
    </li>
  );
}

function Target(props: {
  mark: TimeLineMark;
  isCurrent: boolean;
  tabIndex: number;
  children: ReactNode;
}): ReactNode {
  const { mark, isCurrent, tabIndex, children } = props;
  const content = (
    <>
      <span aria-hidden="true">{children}</span>
      <span className="visually-hidden">{mark.title}</span>
    </>
  );
  if (mark.href === undefined) return <span title={mark.title}>{content}</span>;
  return (
    <Link
      href={mark.href}
      replace
      title={mark.title}
      tabIndex={tabIndex}
      aria-current={isCurrent ? "true" : undefined}
    >
      {content}
    </Link>
  );
}

/** Arrow keys go from mark to mark, Home and End to the first and the last. */
function goAlong(event: KeyboardEvent<HTMLElement>): void {
  const links = [...event.currentTarget.querySelectorAll("a")];
  const at = links.findIndex((link) => link === document.activeElement);
  const target = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    Home: 0,
    End: links.length - 1,
  }[event.key];
  if (target === undefined || at < 0) return;
  event.preventDefault();
  links[Math.min(links.length - 1, Math.max(0, target))]?.focus();
}

function useWidth(): [React.RefObject<HTMLDivElement | null>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const { current } = box;
    if (current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setWidth(Math.max(100, entry.contentRect.width));
    });
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}
