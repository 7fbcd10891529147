import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer, useList } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty, ErrorText, Notice } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { TimeLine } from "../../parts/time-line.tsx";
import { Moment } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { CursorChange, CursorText } from "./cursor-change.tsx";
import { Rewind } from "./move-cursor.tsx";
import { RunRequests } from "./run-requests.tsx";
import { type Evaluation, evaluationTitle, type Sensor, sourceText } from "./sensor-texts.ts";

const STATUSES = [
  ["", "All"],
  ["triggered", "triggered"],
  ["no_new_data", "nothing new"],
  ["error", "error"],
  ["skipped_stale_cursor", "outdated cursor, ignored"],
] as const;

const FIELDS = [{ name: "status", label: "Outcome", options: STATUSES }] as const;

/** The evaluations of a sensor that something came of: on a time line, as a list, one in full. */
export function Evaluations({ sensor }: { sensor: Sensor }): ReactNode {
  const { sensor_id } = sensor;
  const [{ status, eval: chosen }, setFilter] = useFilters(["status", "eval"]);
  const query = queryOf({ status });
  const list = useList("listEvals", { params: { sensor_id }, query }, { keepPrevious: true });
  const items = list.data?.items ?? [];
  const hrefOf = (eval_id: string): string => {
    const given = Object.entries({ status, eval: eval_id }).filter(([, value]) => value !== "");
    return `/sensors/${encodeURIComponent(sensor_id)}?${new URLSearchParams(given).toString()}`;
  };
  return (
    <div className="stack">
      {items.length > 0 && (
        <div className="card">
          <EvaluationLine sensor={sensor} items={items} current={chosen} hrefOf={hrefOf} />
        </div>
      )}
      {chosen !== "" && list.data !== undefined && (
        <Details
          sensor={sensor}
          name={chosen}
          listed={items.find(({ eval_id }) => eval_id === chosen)}
          close={() => setFilter("eval", "")}
        />
      )}
      <Filters of="evaluations" filters={{ status }} setFilter={setFilter} fields={FIELDS} />
      <ListTable
        label="Evaluations"
        list={list}
        columns={columnsOf(sensor, hrefOf)}
        keyOf={({ pos }) => pos}
        empty={
          status === "" ? (
            <Empty title="No evaluations yet.">
              <p>Evaluations with a result appear here. Use “Evaluate” above to try the sensor.</p>
            </Empty>
          ) : (
            <Empty title="No evaluation matches this filter." />
          )
        }
      />
    </div>
  );
}

function EvaluationLine(props: {
  sensor: Sensor;
  items: readonly Evaluation[];
  current: string;
  hrefOf: (eval_id: string) => string;
}): ReactNode {
  const { sensor, items, current, hrefOf } = props;
  return (
    <TimeLine
      label={`Evaluations of ${sensor.name}`}
      current={current}
      marks={items.map((evaluation) => ({
        id: evaluation.eval_id,
        at: evaluation.evaluated_at,
        state: evaluation.status.toUpperCase(),
        title: evaluationTitle(evaluation),
        href: hrefOf(evaluation.eval_id),
      }))}
    />
  );
}

/** An evaluation that is not among those listed, found by the moment at which it was recorded. */
function useEvaluation(sensorId: string, name: string, isWanted: boolean): Evaluation | undefined {
  const why = useAnswer("explainEntity", { query: { entity: name } }, { enabled: isWanted });
  const event = why.data?.items.find(({ type }) => type === "SensorEvaluated");
  const since = event?.occurred_at ?? "";
  const until = since === "" ? "" : new Date(Date.parse(since) + 1_000).toISOString();
  const around = useAnswer(
    "listEvals",
    { params: { sensor_id: sensorId }, query: { since, until, limit: 200 } },
    { enabled: isWanted && since !== "" },
  );
  return around.data?.items.find(({ eval_id }) => eval_id === name);
}

function Details(props: {
  sensor: Sensor;
  name: string;
  listed: Evaluation | undefined;
  close: () => void;
}): ReactNode {
  const { sensor, name, listed } = props;
  const found = useEvaluation(sensor.sensor_id, name, listed === undefined);
  const evaluation = listed ?? found;
  return (
    <div className="card stack">
      <div className="section-heading">
        <h2>Evaluation</h2>
        <button type="button" className="button" onClick={props.close}>
          Close
        </button>
        <Link href={`/ledger/${encodeURIComponent(name)}?view=why`}>why</Link>
      </div>
      {evaluation === undefined ? (
        <p>
          This sensor has no evaluation <code>{visibleText(name)}</code>, or not yet.
        </p>
      ) : (
        <>
          {evaluation.error !== null && (
            <Notice tone="bad">
              <p>
                <ErrorText error={evaluation.error} />
              </p>
            </Notice>
          )}
          <Facts
            facts={[
              ["Outcome", <Status key="status" state={evaluation.status} />],
              ["When", <Moment key="when" at={evaluation.evaluated_at} />],
              ["Trigger", sourceText(evaluation)],
              ["Id", <code key="id">{visibleText(evaluation.eval_id)}</code>],
            ]}
          />
          <RunRequests requests={evaluation.run_requests} most={200} />
          {sensor.mode === "poll" && <Cursors sensor={sensor} evaluation={evaluation} />}
        </>
      )}
    </div>
  );
}

function Cursors({ sensor, evaluation }: { sensor: Sensor; evaluation: Evaluation }): ReactNode {
  const { cursor_before, cursor_after } = evaluation;
  return (
    <>
      <CursorChange before={cursor_before} after={cursor_after} most={50} />
      <details>
        <summary>Full cursor before</summary>
        <CursorText cursor={cursor_before} />
      </details>
      <p>
        <Rewind sensor={sensor} cursor={cursor_before} />
      </p>
    </>
  );
}

function columnsOf(sensor: Sensor, hrefOf: (eval_id: string) => string): Column<Evaluation>[] {
  const cursor: Column<Evaluation>[] =
    sensor.mode === "push"
      ? []
      : [
          {
            heading: "Cursor",
            cell: ({ cursor_before, cursor_after }) => (
              <CursorChange before={cursor_before} after={cursor_after} most={3} />
            ),
          },
        ];
  const rewind: Column<Evaluation>[] =
    sensor.mode === "push"
      ? []
      : [
          {
            heading: "Rewind",
            cell: ({ cursor_before }) => <Rewind sensor={sensor} cursor={cursor_before} />,
            wideOnly: true,
          },
        ];
  return [
    {
      heading: "When",
      cell: ({ eval_id, evaluated_at }) => (
        <Link href={hrefOf(eval_id)}>
          <Moment at={evaluated_at} />
        </Link>
      ),
    },
    {
      heading: "Outcome",
      cell: ({ status, error }) => (
        <span className="sensors-lines">
          <Status state={status} />
          {error !== null && <span className="sensors-error">{visibleText(error.message)}</span>}
        </span>
      ),
    },
    ...cursor,
    {
      heading: "Runs",
      cell: ({ run_requests }) => <RunRequests requests={run_requests} most={3} />,
    },
    { heading: "Trigger", cell: (evaluation) => sourceText(evaluation), wideOnly: true },
    {
      heading: "Events",
      cell: ({ eval_id }) => (
        <Link href={`/ledger/${encodeURIComponent(eval_id)}?view=why`}>why</Link>
      ),
      wideOnly: true,
    },
    ...rewind,
  ];
}
