import { type ReactNode, useState } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Definition, Standstill } from "../../parts/definition.tsx";
import { Facts, labelsText } from "../../parts/facts.tsx";
import { ErrorText, Notice } from "../../parts/notice.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Moment, Time } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { WorkPage } from "../../parts/work-page.tsx";
import { CursorText } from "./cursor-change.tsx";
import { Evaluations } from "./evaluations.tsx";
import { EvaluateForm, NoWorker } from "./evaluate-form.tsx";
import { Messages } from "./messages.tsx";
import { type NewSecret, SensorActions } from "./sensor-actions.tsx";
import { SensorState } from "./sensor-list.tsx";
import { intervalText, lacksWorker, type Sensor, targetText, watchText } from "./sensor-texts.ts";
import "./sensors.css";

/** Lag passes without an event. */
const EVERY_MS = 2_000;

/** One sensor: how it is doing, what came of it, and what can be done with it. */
export function SensorPage(): ReactNode {
  const sensor_id = useAddressName();
  const answer = useAnswer("getSensor", { params: { sensor_id } }, { everyMs: EVERY_MS });
  const [secret, setSecret] = useState<NewSecret | null>(null);
  return (
    <WorkPage
      answer={answer}
      list={{ text: "Sensors", href: "/sensors" }}
      title={answer.data?.name ?? "Sensor"}
      state={(sensor) => <SensorState sensor={sensor} />}
      actions={(sensor) => <SensorActions sensor={sensor} onSecret={setSecret} />}
    >
      {(sensor) => (
        <>
          {secret !== null && <Secret secret={secret} close={() => setSecret(null)} />}
          <Known sensor={sensor} />
        </>
      )}
    </WorkPage>
  );
}

function Secret({ secret, close }: { secret: NewSecret; close: () => void }): ReactNode {
  return (
    <Notice tone="good">
      <p>
        The secret of {secret.name}. It is shown only once: <b>save it now</b>.
      </p>
      <p>
        <code className="sensors-secret">{secret.secret}</code>
      </p>
      <p className="soft">
        Push messages to <code>{`${location.origin}${secret.push_path}`}</code>
        {secret.previous_expires_at !== null && (
          <>
            . The previous secret is valid until <Moment at={secret.previous_expires_at} />
          </>
        )}
      </p>
      <p className="row">
        {/* Browsers lend the clipboard to safe addresses only. */}
        {isSecureContext && (
          <button
            type="button"
            className="button"
            onClick={() => void navigator.clipboard.writeText(secret.secret)}
          >
            Copy
          </button>
        )}
        <button type="button" className="button" onClick={close}>
          I have saved it
        </button>
      </p>
    </Notice>
  );
}

function Known({ sensor }: { sensor: Sensor }): ReactNode {
  const [{ view }] = useFilters(["view"]);
  return (
    <>
      <Standing sensor={sensor} />
      {sensor.description !== undefined && <p>{visibleText(sensor.description)}</p>}
      <div className="card stack">
        <Facts facts={factsOf(sensor)} />
        {sensor.mode === "poll" && (
          <div>
            <p className="soft sensors-small">Cursor: polled up to here</p>
            <CursorText cursor={sensor.cursor} />
          </div>
        )}
      </div>
      <Tabs label="Views of the sensor" tabs={tabsOf(sensor, view)} />
      <Views sensor={sensor} view={view} />
      <SensorDefinition sensor={sensor} />
    </>
  );
}

function Views({ sensor, view }: { sensor: Sensor; view: string }): ReactNode {
  switch (view) {
    case "messages":
      return <Messages sensor={sensor} />;
    case "evaluate":
      return <EvaluateForm sensor={sensor} />;
    default:
      return <Evaluations sensor={sensor} />;
  }
}

function tabsOf({ sensor_id, mode, messages_pending }: Sensor, view: string) {
  const href = `/sensors/${encodeURIComponent(sensor_id)}`;
  const pending = messages_pending === 0 ? "" : ` (${countText(messages_pending)} pending)`;
  const named = ["messages", "evaluate"].includes(view) ? view : "";
  return [
    { text: "Evaluations", href, isCurrent: named === "" },
    ...(mode === "push"
      ? [
          {
            text: `Messages${pending}`,
            href: `${href}?view=messages`,
            isCurrent: named === "messages",
          },
        ]
      : []),
    { text: "Evaluate", href: `${href}?view=evaluate`, isCurrent: named === "evaluate" },
  ];
}

function factsOf(sensor: Sensor): [string, ReactNode][] {
  const { mode, next_due_at, last_message_at, looks, lag_seconds } = sensor;
  return [
    ["Mode", mode],
    ["Lag", lag_seconds === 0 ? "none" : durationText(lag_seconds * 1_000)],
    ["Last evaluation", <Time key="last" at={sensor.last_evaluation_at} />],
    [
      "Last poll",
      sensor.last_looked_at === null ? null : (
        <>
          <Time at={sensor.last_looked_at} />
          {looks > 0 && <span className="soft"> ({countText(looks)} found nothing new)</span>}
        </>
      ),
    ],
    ["Next poll", next_due_at === null ? null : <Time key="next" at={next_due_at} />],
    ["Last message", last_message_at === null ? null : <Time key="message" at={last_message_at} />],
    ["Messages", mode === "push" ? messagesText(sensor) : null],
    ["Evaluations", countText(sensor.evaluations)],
    ["Runs triggered", countText(sensor.runs_requested)],
    ["Secret", mode === "push" ? (sensor.has_secret ? "set" : "not set") : null],
  ];
}

function messagesText({ messages_received, messages_pending }: Sensor): string {
  return `${countText(messages_received)} received, ${countText(messages_pending)} pending`;
}

function evaluatorText({ needs_function, watch }: Sensor): string {
  if (needs_function) return "a worker with the project's code";
  return watch?.type === "files" || watch?.type === "rows" ? "any worker" : "the server";
}

/** What whoever looks should know first. */
function Standing({ sensor }: { sensor: Sensor }): ReactNode {
  const { state, reason, error } = sensor;
  return (
    <>
      {error !== null && (
        <Notice tone="bad">
          <p>
            The last evaluation failed: <ErrorText error={error} />
          </p>
        </Notice>
      )}
      <Standstill noun="sensor" state={state} reason={reason} />
      {lacksWorker(sensor) && <NoWorker />}
    </>
  );
}

function SensorDefinition({ sensor }: { sensor: Sensor }): ReactNode {
  const { target } = sensor;
  const hasMore = target !== null && (target.config !== null || target.run_key !== null);
  return (
    <Definition
      entity={sensor.sensor_id}
      origin={sensor.origin}
      verb="evaluate"
      made="Created with the API; it needs no code. You can delete it here."
      facts={[
        [sensor.mode === "push" ? "Receives" : "Polls", watchText(sensor)],
        ["Triggers", targetText(sensor)],
        ["Poll interval", intervalText(sensor)],
        ["Evaluation timeout", durationText(sensor.timeout_ms)],
        ["Runs per evaluation", `at most ${countText(sensor.max_run_requests)}`],
        ["Evaluated by", evaluatorText(sensor)],
        ["Labels", labelsText(sensor.labels)],
        ["Definition", `version ${sensor.definition_version}`],
        ["Created", <Moment key="created" at={sensor.created_at} />],
        ["Id", <code key="id">{sensor.sensor_id}</code>],
      ]}
      json={hasMore ? { label: "Target", value: target } : undefined}
    />
  );
}
