import type { ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { WorkList } from "../../parts/work-list.tsx";
import { lacksWorker, lateMs, type Sensor, watchText } from "./sensor-texts.ts";
import "./sensors.css";

const STATES = [
  ["", "All"],
  ["ACTIVE", "active"],
  ["PAUSED", "paused"],
  ["ERROR", "error"],
  ["DELETED", "deleted"],
] as const;

const MODES = [
  ["", "All"],
  ["push", "push"],
  ["poll", "poll"],
] as const;

/** Lag passes without an event. */
const EVERY_MS = 5_000;

/** All sensors by name: what each looks at, how far behind it is, and what lacks. */
export function SensorList(): ReactNode {
  const [{ status, mode }, setFilter] = useFilters(["status", "mode"]);
  const query = {
    ...queryOf({ status }),
    ...(mode === "" ? {} : { mode: mode as Sensor["mode"] }),
  };
  const options = { keepPrevious: true, everyMs: EVERY_MS };
  const list = useList("listSensors", { query }, options);
  return (
    <WorkList
      noun="sensor"
      href="/sensors"
      filters={
        <Filters
          of="sensors"
          filters={{ status, mode }}
          setFilter={setFilter}
          fields={[
            { name: "status", label: "State", options: STATES },
            { name: "mode", label: "Mode", options: MODES },
          ]}
        />
      }
      isFiltered={Object.keys(query).length > 0}
      list={list}
      columns={COLUMNS}
      keyOf={({ sensor_id }) => sensor_id}
      none={<NoneYet />}
    />
  );
}

function NoneYet(): ReactNode {
  return (
    <Empty title="No sensors yet.">
      <p>
        Define one with <code>sensor()</code> in the project's code and run <code>pawl deploy</code>
        , or create one without code: <code>pawl sensor create</code>.
      </p>
    </Empty>
  );
}

const COLUMNS: readonly Column<Sensor>[] = [
  {
    heading: "Sensor",
    cell: (sensor) => (
      <span className="sensors-lines">
        <Link href={`/sensors/${encodeURIComponent(sensor.sensor_id)}`}>{sensor.name}</Link>
        <span className="soft">{visibleText(watchText(sensor))}</span>
      </span>
    ),
  },
  { heading: "Mode", cell: ({ mode }) => mode },
  { heading: "State", cell: (sensor) => <SensorState sensor={sensor} /> },
  {
    heading: "Lag",
    cell: ({ lag_seconds }) => (lag_seconds === 0 ? "none" : durationText(lag_seconds * 1_000)),
    align: "end",
  },
  {
    heading: "Last evaluation",
    cell: ({ last_evaluation_at, last_looked_at, error }) => (
      <span className="sensors-lines">
        <Time at={last_evaluation_at} />
        {last_looked_at !== null && (
          <span className="soft">
            polled <Time at={last_looked_at} />
          </span>
        )}
        {error !== null && <span className="sensors-error">{visibleText(error.message)}</span>}
      </span>
    ),
  },
  {
    heading: "Pending messages",
    cell: ({ mode, messages_pending }) => (mode === "push" ? countText(messages_pending) : "–"),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Runs triggered",
    cell: ({ runs_requested }) => countText(runs_requested),
    align: "end",
    wideOnly: true,
  },
];

/** Where a sensor stands, whether it is late, and whether somebody is missing. */
export function SensorState({ sensor }: { sensor: Sensor }): ReactNode {
  const late = lateMs(sensor);
  return (
    <>
      <Status state={sensor.state} />{" "}
      {late !== null && <Status state="LATE">late by {durationText(late)}</Status>}{" "}
      {lacksWorker(sensor) && <Status state="LATE">needs a worker</Status>}
    </>
  );
}
