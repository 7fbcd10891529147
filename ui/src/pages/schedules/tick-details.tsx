import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { ErrorText, Notice } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import { TriggeredWork } from "./triggered-work.tsx";
import { epochOfTickKey, reasonText, type Tick } from "./schedule-texts.ts";
import { ZonedTime } from "./zoned-time.tsx";

/** The tick that the address names: everything that is known of it. */
export function TickDetails(props: {
  scheduleId: string;
  zone: string;
  /** The id of a tick, or of the first of several. */
  name: string;
  close: () => void;
}): ReactNode {
  const { scheduleId, zone, name } = props;
  const epoch = epochOfTickKey(name);
  const atMs = (epoch ?? 0) * 1_000;
  const since = new Date(atMs).toISOString();
  const until = new Date(atMs + 1_000).toISOString();
  const answer = useAnswer(
    "listTicks",
    { params: { schedule_id: scheduleId }, query: { since, until, limit: 200 } },
    { enabled: epoch !== null },
  );
  return (
    <div className="card schedules-tick">
      <div className="section-heading">
        <h3>Tick</h3>
        <button type="button" className="button" onClick={props.close}>
          Close
        </button>
      </div>
      {epoch === null ? (
        <Unknown name={name} />
      ) : (
        <Loaded answer={answer}>
          {({ items }) => {
            const tick =
              items.find(({ tick_id }) => tick_id === name) ??
              items.find(({ tick_id }) => tick_id === null);
            return tick === undefined ? <Unknown name={name} /> : <Known tick={tick} zone={zone} />;
          }}
        </Loaded>
      )}
    </div>
  );
}

function Unknown({ name }: { name: string }): ReactNode {
  return (
    <p>
      This schedule has no tick <code>{visibleText(name)}</code> yet.
    </p>
  );
}

function Known({ tick, zone }: { tick: Tick; zone: string }): ReactNode {
  const lateMs = Date.parse(tick.decided_at) - Date.parse(tick.through);
  return (
    <div className="stack">
      {tick.error !== null && (
        <Notice tone="bad">
          <p>
            <ErrorText error={tick.error} />
          </p>
        </Notice>
      )}
      <Facts
        facts={[
          ["Outcome", <Outcome key="outcome" tick={tick} />],
          ["Time", <ZonedTime key="time" at={tick.scheduled_for} zone={zone} />],
          [
            "Through",
            tick.count > 1 ? <ZonedTime key="through" at={tick.through} zone={zone} /> : null,
          ],
          ["Times", tick.count > 1 ? countText(tick.count) : null],
          ["Decided", <Moment key="decided" at={tick.decided_at} />],
          ["Delay", lateMs > 0 ? durationText(lateMs) : null],
          ["Run", <TriggeredWork key="asked" {...tick} />],
          ["Partitions", partitionsText(tick)],
          ["Stale because", staleText(tick)],
          ["Definition", `version ${tick.definition_version}`],
        ]}
      />
      <p>
        <WhyLink tick={tick} />
      </p>
    </div>
  );
}

/** What became of a time, with the reason for a skip in words. */
export function Outcome({ tick }: { tick: Tick }): ReactNode {
  return (
    <span className="row">
      <Status state={tick.status} />
      {tick.count > 1 && <span>{countText(tick.count)} times</span>}
      {tick.manual && <span className="soft">manual</span>}
      {tick.reason !== null && <span>{reasonText(tick.reason)}</span>}
      {tick.error !== null && <span>{visibleText(tick.error.message)}</span>}
    </span>
  );
}

/** The way to the events that led to a tick; those of several are among the schedule's own. */
export function WhyLink({ tick }: { tick: Tick }): ReactNode {
  const view = tick.tick_id === null ? "history" : "why";
  return (
    <Link href={`/ledger/${encodeURIComponent(tick.tick_id ?? tick.schedule_id)}?view=${view}`}>
      {view}
    </Link>
  );
}

function partitionsText({ partition_keys: keys, partition_count: count }: Tick): string | null {
  if (keys === null || count === null) return null;
  const shown = keys.slice(0, 5).join(" ");
  return count > 5 ? `${countText(count)}: ${shown} …` : shown;
}

function staleText({ stale_reasons: reasons }: Tick): string | null {
  if (reasons === null) return null;
  return Object.entries(reasons)
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => `${reason.toLowerCase().replaceAll("_", " ")}: ${countText(count)}`)
    .join(", ");
}
