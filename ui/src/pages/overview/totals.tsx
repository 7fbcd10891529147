import type { ReactNode } from "react";
import { Link } from "wouter";
import type { OverviewCounts } from "../../../../src/work/server-api.ts";
import { Section } from "../../parts/page.tsx";
import { lookOf } from "../../parts/status-look.ts";
import { countText } from "../../parts/time-text.ts";

const KINDS = [
  ["backfills", "Backfills", "/backfills", "status"],
  ["runs", "Unfinished runs", "/runs", "status"],
  ["schedules", "Schedules", "/schedules", null],
  ["sensors", "Sensors", "/sensors", null],
  ["syncs", "Syncs", "/syncs", "status"],
  ["moves", "Moves", "/moves", "status"],
  ["splits", "Splits", "/splits", null],
] as const;

/** How much there is of everything, by state; each leads to its list. */
export function Totals({ counts }: { counts: OverviewCounts }): ReactNode {
  const kinds = KINDS.filter(([kind]) => Object.keys(counts[kind]).length > 0);
  if (kinds.length === 0) return null;
  return (
    <Section title="Everything">
      <dl className="overview-totals card">
        {kinds.map(([kind, title, href, filter]) => (
          <div key={kind}>
            <dt>
              <Link href={href}>{title}</Link>
            </dt>
            <dd>
              {Object.entries(counts[kind]).map(([state, count]) => (
                <StateCount key={state} state={state} count={count} href={href} filter={filter} />
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

function StateCount(props: {
  state: string;
  count: number;
  href: string;
  filter: string | null;
}): ReactNode {
  const { state, count, href, filter } = props;
  const { tone, sign, word } = lookOf(state);
  const content = (
    <>
      <span aria-hidden="true" className="status-sign">
        {sign}
      </span>
      {countText(count)} {word}
    </>
  );
  if (filter === null) return <span className={`status tone-${tone}`}>{content}</span>;
  return (
    <Link href={`${href}?${filter}=${state}`} className={`status tone-${tone}`}>
      {content}
    </Link>
  );
}
