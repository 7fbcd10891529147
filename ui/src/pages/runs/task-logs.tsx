import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Section } from "../../parts/page.tsx";
import { countText, momentText } from "../../parts/time-text.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { fieldsText } from "./fields-text.ts";

type Logs = AnswerOf<"listTaskLogs">;
type Line = Logs["items"][number];

const PAGE_LINES = 200;

/** How often new lines are looked for while a task runs: they make no events. */
const FOLLOW_MS = 1_000;

/** What a task logged, page by page; without a page in the address the newest, as they come. */
export function TaskLogs(props: { runId: string; taskKey: number; isRunning: boolean }): ReactNode {
  const [{ page: asked }, setFilter] = useFilters(["page"]);
  const [lines, setLines] = useState(0);
  const last = Math.max(1, Math.ceil(lines / PAGE_LINES));
  const page = /^[1-9]\d{0,8}$/.test(asked) ? Number(asked) : last;
  const answer = useAnswer(
    "listTaskLogs",
    {
      params: { run_id: props.runId, task_key: props.taskKey },
      query: { after: (page - 1) * PAGE_LINES, limit: PAGE_LINES },
    },
    { everyMs: props.isRunning ? FOLLOW_MS : undefined, keepPrevious: true },
  );
  const told = answer.data?.last_line ?? 0;
  useEffect(() => setLines((before) => Math.max(before, told)), [told]);
  const isFollowing = asked === "";
  return (
    <Section
      title="Log"
      actions={
        last > 1 && (
          <Pages
            page={page}
            last={last}
            go={(to) => setFilter("page", to === null ? "" : String(to))}
          />
        )
      }
    >
      <Loaded answer={answer}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft">
              {props.isRunning
                ? "Nothing logged yet. Lines written with ctx.log or console.log appear here."
                : "Nothing was logged. Lines written with ctx.log or console.log appear here."}
            </p>
          ) : (
            <Lines lines={items} isFollowing={isFollowing} />
          )
        }
      </Loaded>
      {last > 1 && (
        <p className="soft">
          Page {page} of {last}, {countText(lines)} lines.
        </p>
      )}
    </Section>
  );
}

function Pages(props: {
  page: number;
  last: number;
  go: (page: number | null) => void;
}): ReactNode {
  const { page, last, go } = props;
  const buttons = [
    ["First", 1, page <= 1],
    ["Older", page - 1, page <= 1],
    ["Newer", page + 1, page >= last],
    ["Newest", null, page >= last],
  ] as const;
  return (
    <div className="row" role="group" aria-label="Pages of the log">
      {buttons.map(([text, to, isOff]) => (
        <button key={text} type="button" className="button" disabled={isOff} onClick={() => go(to)}>
          {text}
        </button>
      ))}
    </div>
  );
}

function Lines({
  lines,
  isFollowing,
}: {
  lines: readonly Line[];
  isFollowing: boolean;
}): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const newest = lines.at(-1)?.line;
  useLayoutEffect(() => {
    const element = box.current;
    // Whoever has scrolled up reads; nothing moves under their eyes.
    if (element !== null && isFollowing && isAtEnd.current)
      element.scrollTop = element.scrollHeight;
  }, [newest, isFollowing]);
  const hasSeveral = new Set(lines.map(({ attempt }) => attempt)).size > 1;
  return (
    <div
      ref={box}
      className="runs-log"
      role="region"
      aria-label="Log lines"
      // A region that scrolls has to be reached by the keyboard too.
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
      onScroll={({ currentTarget: element }) => {
        isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
      }}
    >
      <ol>
        {lines.map(({ line, at, attempt, message, fields }) => (
          <li key={line} value={line}>
            <time dateTime={at} title={at} className="runs-log-time">
              {momentText(at).slice(11)}
              {at.slice(19, 23)}
            </time>
            <span className="runs-log-text">
              {hasSeveral && <span className="soft">attempt {attempt} </span>}
              {message} <span className="runs-log-fields">{fieldsText(fields)}</span>
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}
