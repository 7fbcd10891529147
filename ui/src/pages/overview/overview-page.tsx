import "./overview.css";
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { OverviewDocument } from "../../../../src/work/server-api.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { countText } from "../../parts/time-text.ts";
import { Activity } from "./activity.tsx";
import { AttentionList } from "./attention-list.tsx";
import { CONCERNS, leastText, lookOfConcern } from "./concerns.ts";
import { RunningTable } from "./running-table.tsx";
import { Totals } from "./totals.tsx";

/** Things become late, and workers go, without an event. */
const EVERY_MS = 10_000;
/** What is stale is told later where it takes long to find. */
const BEHIND_MS = 2_000;

/** What is running, failed, stuck, late, stale and paused right now, and how the last hour went. */
export function OverviewPage(): ReactNode {
  const [isBehind, setIsBehind] = useState(false);
  const everyMs = isBehind ? BEHIND_MS : EVERY_MS;
  const overview = useAnswer("getOverview", {}, { everyMs });
  const { stale_pos = 0, pos = 0 } = overview.data ?? {};
  if (stale_pos < pos !== isBehind) setIsBehind(stale_pos < pos);
  return (
    <Page
      title="Overview"
      actions={
        <Link href="/backfills/new" className="button">
          New backfill
        </Link>
      }
    >
      <Loaded answer={overview}>{(answer) => <Overview overview={answer} />}</Loaded>
    </Page>
  );
}

function Overview({ overview }: { overview: OverviewDocument }): ReactNode {
  const { attention, attention_counts, running, running_total, counts } = overview;
  if (Object.keys(counts.definitions).length === 0) return <NothingDefined />;
  return (
    <>
      <Tiles overview={overview} />
      <section className="overview-activity" aria-label="The last hour">
        <Activity />
      </section>
      {!hasRun(overview) && <NothingRun />}
      <Section title="Needs attention">
        {attention.length === 0 ? (
          <p className="overview-calm card">
            <span aria-hidden="true" className="overview-sign tone-good">
              ✓
            </span>{" "}
            Nothing failed in the last day, and nothing is stuck, late, stale or paused{" "}
            {overview.stale_complete ? "." : ". Staleness is not fully checked yet."}
          </p>
        ) : (
          <AttentionList
            attention={attention}
            counts={attention_counts}
            isStaleCounted={overview.stale_complete}
          />
        )}
      </Section>
      <Section title="Running">
        <div id="running">
          {running.length === 0 ? (
            <p className="overview-calm card soft">Nothing is running right now.</p>
          ) : (
            <RunningTable running={running} />
          )}
          {running_total > running.length && (
            <p className="soft">{countText(running_total - running.length)} more are running.</p>
          )}
        </div>
      </Section>
      <Totals counts={counts} />
    </>
  );
}

/** How much of what is wrong there is, each a step to where it stands on the page. */
function Tiles({ overview }: { overview: OverviewDocument }): ReactNode {
  const { attention_counts, running_total, running_complete, stale_complete } = overview;
  const tiles = [
    {
      id: "running",
      title: "Running",
      count: running_total,
      tone: "busy",
      sign: "▶",
      isLeast: !running_complete,
    },
    ...CONCERNS.map((what) => ({
      id: what,
      count: attention_counts[what],
      isLeast: what === "stale" && !stale_complete,
      ...lookOfConcern(what),
    })),
  ];
  return (
    <ul className="overview-tiles">
      {tiles.map(({ id, count, tone, ...text }) => (
        <li key={id}>
          {/* What is zero has no place to go to. */}
          {count === 0 ? (
            <span className="overview-tile">
              <TileText {...text} count={count} />
            </span>
          ) : (
            <a href={`#${id}`} className={`overview-tile overview-tile-some tone-${tone}`}>
              <TileText {...text} count={count} />
            </a>
          )}
        </li>
      ))}
    </ul>
  );
}

function TileText(props: {
  title: string;
  count: number;
  sign: string;
  isLeast: boolean;
}): ReactNode {
  return (
    <>
      <span className="overview-tile-count">
        {leastText(props.count, props.isLeast)}
        {props.isLeast && props.count === 0 && (
          <span className="visually-hidden"> (not known yet)</span>
        )}
      </span>
      <span className="overview-tile-title">
        <span aria-hidden="true">{props.sign}</span> {props.title}
      </span>
    </>
  );
}

/** Whether anything was ever asked for. */
function hasRun({ counts, running_total }: OverviewDocument): boolean {
  const made = [counts.backfills, counts.runs, counts.syncs, counts.moves, counts.splits];
  return running_total > 0 || made.some((states) => Object.keys(states).length > 0);
}

function NothingDefined(): ReactNode {
  return (
    <Empty title="Nothing is defined yet.">
      <p>
        Write assets, schedules or syncs into <code>pawl.config.ts</code> (<code>pawl init</code>{" "}
        creates one), then start Pawl there, or publish them to this server with{" "}
        <code>pawl deploy</code>. They appear here at once.
      </p>
    </Empty>
  );
}

function NothingRun(): ReactNode {
  return (
    <Empty title="No backfills yet.">
      <p>
        Start with a <Link href="/backfills/new">New backfill</Link>, or open{" "}
        <Link href="/assets">Assets</Link>.
      </p>
    </Empty>
  );
}
