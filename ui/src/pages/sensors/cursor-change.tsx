import type { ReactNode } from "react";
import { countText } from "../../parts/time-text.ts";
import { clippedText, visibleText } from "../../parts/visible-text.ts";
import { type CursorChange, cursorDifference } from "./cursor-difference.ts";

/** Longest text that is shown of one side of a change. */
const TEXT_MAX = 120;

const SIGNS: Readonly<Record<CursorChange["kind"], string>> = {
  added: "+",
  removed: "−",
  changed: "→",
};

/** How a cursor moved, in as few lines as will do. */
export function CursorChange(props: {
  before: string | null;
  after: string | null;
  /** Most lines that are shown. */
  most: number;
}): ReactNode {
  const { before, after, most } = props;
  const { changes, same } = cursorDifference(before, after);
  if (changes.length === 0) {
    return <span className="soft">{before === null ? "at the start" : "unchanged"}</span>;
  }
  const hidden = changes.length - most;
  return (
    <ul className="sensors-cursor">
      {changes.slice(0, most).map((change) => (
        <li key={`${change.kind} ${change.name}`}>
          <Change change={change} />
        </li>
      ))}
      {(hidden > 0 || (same > 0 && changes.some(({ name }) => name !== ""))) && (
        <li className="soft">
          {[
            hidden > 0 ? `${countText(hidden)} more changed` : "",
            same > 0 ? `${countText(same)} stayed` : "",
          ]
            .filter((text) => text !== "")
            .join(", ")}
        </li>
      )}
    </ul>
  );
}

function Change({ change }: { change: CursorChange }): ReactNode {
  const { kind, name, before, after } = change;
  if (kind === "changed") {
    return (
      <>
        {name !== "" && <code>{short(name)}: </code>}
        <del>{short(before)}</del> <span aria-hidden="true">→</span> <ins>{short(after)}</ins>
      </>
    );
  }
  const [Tag, value] = kind === "added" ? (["ins", after] as const) : (["del", before] as const);
  const text = name === "" ? value : value === "" ? name : `${name}: ${value}`;
  return (
    <>
      <span aria-hidden="true">{SIGNS[kind]} </span>
      <Tag>{short(text)}</Tag>
    </>
  );
}

function short(text: string): string {
  return clippedText(text, TEXT_MAX);
}

/** A cursor as text, laid out where it is JSON. */
export function CursorText({ cursor }: { cursor: string | null }): ReactNode {
  if (cursor === null) return <span className="soft">at the start</span>;
  return (
    // A region that scrolls has to be reached by the keyboard too.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <pre className="json sensors-cursor-text" tabIndex={0} role="region" aria-label="Cursor">
      {visibleText(laidOut(cursor))}
    </pre>
  );
}

function laidOut(cursor: string): string {
  if (!/^[{[]/.test(cursor)) return cursor;
  try {
    return JSON.stringify(JSON.parse(cursor), null, 2);
  } catch {
    return cursor;
  }
}
