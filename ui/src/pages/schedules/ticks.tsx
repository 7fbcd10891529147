import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer, useList } from "../../api/use-answer.ts";
import { Filters } from "../../parts/filters.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { TimeLine, type TimeLineMark } from "../../parts/time-line.tsx";
import { durationText } from "../../parts/time-text.ts";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { TriggeredWork } from "./triggered-work.tsx";
import { NextTimes } from "./next-times.tsx";
import {
  type NextTime,
  REASON_OPTIONS,
  type Schedule,
  type Tick,
  tickKey,
  tickState,
  tickTitle,
} from "./schedule-texts.ts";
import { Outcome, TickDetails, WhyLink } from "./tick-details.tsx";
import { zonedText } from "./zoned-text.ts";
import { ZonedTime } from "./zoned-time.tsx";

const STATUSES = [
  ["", "All"],
  ["triggered", "triggered"],
  ["skipped", "skipped"],
  ["failed", "failed"],
] as const;

const MANUAL = [
  ["", "All"],
  ["false", "the schedule"],
  ["true", "a user"],
] as const;

const FIELDS = [
  { name: "status", label: "Outcome", options: STATUSES },
  { name: "reason", label: "Reason for a skip", options: REASON_OPTIONS },
  { name: "manual", label: "Triggered by", options: MANUAL },
] as const;

const FILTERS = ["status", "reason", "manual", "tick"] as const;

/** Past and coming times of a schedule: on a time line, in words, and one of them in full. */
export function Ticks({ schedule }: { schedule: Schedule }): ReactNode {
  const { schedule_id, timezone } = schedule;
  const [filters, setFilter] = useFilters(FILTERS);
  const { status, reason, manual, tick } = filters;
  const query = {
    ...queryOf({ status, reason }),
    ...(manual === "" ? {} : { manual: manual as "true" | "false" }),
  };
  const params = { schedule_id };
  const list = useList("listTicks", { params, query }, { keepPrevious: true });
  const next = useAnswer("listNextTimes", { params, query: { count: 10 } }, { everyMs: 60_000 });
  const hrefOf = (key: string): string => {
    const given = Object.entries({ ...filters, tick: key }).filter(([, value]) => value !== "");
    return `/schedules/${encodeURIComponent(schedule_id)}?${new URLSearchParams(given).toString()}`;
  };
  const past = list.data?.items ?? [];
  const coming = next.data?.items ?? [];
  return (
    <>
      <Section title="Timeline" actions={<span className="soft">local time</span>}>
        <div className="card">
          <TickLine
            schedule={schedule}
            past={past}
            coming={coming}
            current={tick}
            hrefOf={hrefOf}
          />
        </div>
        {tick !== "" && (
          <TickDetails
            scheduleId={schedule_id}
            zone={timezone}
            name={tick}
            close={() => setFilter("tick", "")}
          />
        )}
      </Section>
      <Section title="Next ticks">
        <Loaded answer={next}>
          {({ items }) => <NextTimes times={items} zone={timezone} state={schedule.state} />}
        </Loaded>
      </Section>
      <Section title="Past ticks">
        <Filters of="ticks" filters={filters} setFilter={setFilter} fields={FIELDS} />
        <ListTable
          label="Past ticks"
          list={list}
          columns={columnsOf(timezone, hrefOf)}
          keyOf={({ pos }) => pos}
          empty={
            Object.keys(query).length > 0 ? (
              <Empty title="No tick matches these filters." />
            ) : (
              <Empty title="No ticks yet.">
                <p>The next ticks are above. “Trigger now” triggers one at once.</p>
              </Empty>
            )
          }
        />
      </Section>
    </>
  );
}

function TickLine(props: {
  schedule: Schedule;
  past: readonly Tick[];
  coming: readonly NextTime[];
  current: string;
  hrefOf: (key: string) => string;
}): ReactNode {
  const { schedule, past, coming, current, hrefOf } = props;
  const marks: TimeLineMark[] = [
    ...past.map((tick) => ({
      id: tickKey(tick),
      at: tick.scheduled_for,
      until: tick.through,
      state: tickState(tick),
      title: tickTitle(tick, schedule.timezone),
      href: hrefOf(tickKey(tick)),
    })),
    ...coming.map((time) => ({
      id: `next:${time.scheduled_for}`,
      at: time.scheduled_for,
      state: schedule.state === "PAUSED" ? "PAUSED" : "DUE",
      title: `${zonedText(time.scheduled_for, schedule.timezone)} ${schedule.timezone} upcoming`,
    })),
  ];
  if (marks.length === 0) return <p className="soft">There are no past and no coming ticks.</p>;
  return <TimeLine label={`Ticks of ${schedule.name}`} marks={marks} current={current} />;
}

function columnsOf(zone: string, hrefOf: (key: string) => string): Column<Tick>[] {
  return [
    {
      heading: "Time",
      cell: (tick) => (
        <Link href={hrefOf(tickKey(tick))}>
          <ZonedTime at={tick.scheduled_for} zone={zone} />
        </Link>
      ),
    },
    { heading: "Outcome", cell: (tick) => <Outcome tick={tick} /> },
    { heading: "Run", cell: (tick) => <TriggeredWork {...tick} /> },
    {
      heading: "Delay",
      cell: ({ decided_at, through }) => durationText(Date.parse(decided_at) - Date.parse(through)),
      align: "end",
      wideOnly: true,
    },
    { heading: "Events", cell: (tick) => <WhyLink tick={tick} />, wideOnly: true },
  ];
}
