import type { ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Empty, NothingFits } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { lacksWorker, lateMs, type Sensor, watchText } from "./sensor-texts.ts";
import "./sensors.css";

const STATES = [
  ["", "all but deleted"],
  ["ACTIVE", "active"],
  ["PAUSED", "paused"],
  ["ERROR", "error"],
  ["DELETED", "deleted"],
] as const;

const MODES = [
  ["", "push and poll"],
  ["push", "push"],
  ["poll", "poll"],
] as const;

/** Lag passes without an event. */
const EVERY_MS = 5_000;

/** All sensors by name: what each looks at, how far behind it is, and what lacks. */
export function SensorList(): ReactNode {
  const [{ status, mode }, setFilter] = useFilters(["status", "mode"]);
  const query = {
    ...(status === "" ? {} : { status }),
    ...(mode === "" ? {} : { mode: mode as Sensor["mode"] }),
  };
  const options = { keepPrevious: true, everyMs: EVERY_MS };
  const list = useList("listSensors", { query }, options);
  const isFiltered = Object.keys(query).length > 0;
  return (
    <Page title="Sensors">
      <div className="filters" role="search">
        <Choice
          label="State"
          value={status}
          options={STATES}
          onChange={(value) => setFilter("status", value)}
        />
        <Choice
          label="Mode"
          value={mode}
          options={MODES}
          onChange={(value) => setFilter("mode", value)}
        />
      </div>
      <ListTable
        label="Sensors"
        list={list}
        columns={COLUMNS}
        keyOf={({ sensor_id }) => sensor_id}
        empty={isFiltered ? <NothingFits noun="sensor" all="/sensors" /> : <NoneYet />}
      />
    </Page>
  );
}

function NoneYet(): ReactNode {
  return (
    <Empty title="There is no sensor yet.">
      <p>
        Define one with <code>sensor()</code> in the project's code and run <code>pawl deploy</code>
        , or make one that needs no code with <code>pawl sensor create</code>.
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
            looked <Time at={last_looked_at} />
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
    heading: "Runs asked for",
    cell: ({ runs_requested }) => countText(runs_requested),
    align: "end",
    wideOnly: true,
  },
];

/** Where a sensor stands, whether it is late, and whether somebody is missing. */
export function SensorState({ sensor }: { sensor: Sensor }): ReactNode {
  const late = lateMs(sensor);
  return (
    <span className="row">
      <Status state={sensor.state} />
      {late !== null && <Status state="LATE">late by {durationText(late)}</Status>}
      {lacksWorker(sensor) && <Status state="LATE">needs a worker</Status>}
    </span>
  );
}
