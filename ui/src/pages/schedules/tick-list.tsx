import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer, useList } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { TimeLine, type TimeLineMark } from "../../parts/time-line.tsx";
import { durationText } from "../../parts/time-text.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { AskedFor } from "./asked-for.tsx";
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
  ["", "any outcome"],
  ["triggered", "triggered"],
  ["skipped", "skipped"],
  ["failed", "failed"],
] as const;

const MANUAL = [
  ["", "by itself or by hand"],
  ["false", "by itself"],
  ["true", "by hand"],
] as const;

const FILTERS = ["status", "reason", "manual", "tick"] as const;

/** Past and coming times of a schedule: on a time line, in words, and one of them in full. */
export function Ticks({ schedule }: { schedule: Schedule }): ReactNode {
  const { schedule_id, timezone } = schedule;
  const [filters, setFilter] = useFilters(FILTERS);
  const { status, reason, manual, tick } = filters;
  const query = {
    ...(status === "" ? {} : { status }),
    ...(reason === "" ? {} : { reason }),
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
      <Section
        title="Time line"
        actions={<span className="soft">times as the clocks here show them</span>}
      >
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
      <Section title="Next times">
        <Loaded answer={next}>
          {({ items }) => <NextTimes times={items} zone={timezone} state={schedule.state} />}
        </Loaded>
      </Section>
      <Section title="Past times">
        <TickFilters filters={filters} setFilter={setFilter} />
        <ListTable
          label="Past times"
          list={list}
          columns={columnsOf(timezone, hrefOf)}
          keyOf={({ pos }) => pos}
          empty={
            Object.keys(query).length > 0 ? (
              <Empty title="No past time fits these filters." />
            ) : (
              <Empty title="None of its times has come yet.">
                <p>Its next times are above. “Trigger now” acts at once.</p>
              </Empty>
            )
          }
        />
      </Section>
    </>
  );
}

type FilterName = (typeof FILTERS)[number];

function TickFilters(props: {
  filters: Readonly<Record<FilterName, string>>;
  setFilter: (name: FilterName, value: string) => void;
}): ReactNode {
  const { filters, setFilter } = props;
  return (
    <div className="filters" role="search">
      <Choice
        label="Outcome"
        value={filters.status}
        options={STATUSES}
        onChange={(value) => setFilter("status", value)}
      />
      <Choice
        label="Reason for a skip"
        value={filters.reason}
        options={REASON_OPTIONS}
        onChange={(value) => setFilter("reason", value)}
      />
      <Choice
        label="Asked for"
        value={filters.manual}
        options={MANUAL}
        onChange={(value) => setFilter("manual", value)}
      />
    </div>
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
      title: `${zonedText(time.scheduled_for, schedule.timezone)} ${schedule.timezone} to come`,
    })),
  ];
  const ends = marks.flatMap(({ at, until = at }) => [Date.parse(at), Date.parse(until)]);
  if (ends.length === 0) return <p className="soft">It has neither past nor coming times.</p>;
  const [fromMs, toMs] = [Math.min(...ends), Math.max(...ends)];
  const marginMs = Math.max(30_000, (toMs - fromMs) * 0.03);
  return (
    <TimeLine
      label={`Times of ${schedule.name}`}
      from={new Date(fromMs - marginMs).toISOString()}
      to={new Date(toMs + marginMs).toISOString()}
      marks={marks}
      current={current}
    />
  );
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
    { heading: "Asked for", cell: (tick) => <AskedFor {...tick} /> },
    {
      heading: "Decided after",
      cell: ({ decided_at, through }) => durationText(Date.parse(decided_at) - Date.parse(through)),
      align: "end",
      wideOnly: true,
    },
    { heading: "Events", cell: (tick) => <WhyLink tick={tick} />, wideOnly: true },
  ];
}
