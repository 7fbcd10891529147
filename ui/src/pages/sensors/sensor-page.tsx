import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts, Json } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Moment, Time } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { CursorText } from "./cursor-change.tsx";
import { Evaluations } from "./eval-list.tsx";
import { EvaluateForm, NoWorker } from "./evaluate-form.tsx";
import { Messages } from "./message-list.tsx";
import { type NewSecret, SensorActions } from "./sensor-actions.tsx";
import { SensorState } from "./sensor-list.tsx";
import { intervalText, lacksWorker, type Sensor, targetText, watchText } from "./sensor-texts.ts";
import "./sensors.css";

const CRUMBS = [{ text: "Sensors", href: "/sensors" }];

/** Lag passes without an event. */
const EVERY_MS = 2_000;

/** One sensor: how it is doing, what came of it, and what can be done with it. */
export function SensorPage(): ReactNode {
  const sensor_id = useAddressName();
  const answer = useAnswer("getSensor", { params: { sensor_id } }, { everyMs: EVERY_MS });
  const [secret, setSecret] = useState<NewSecret | null>(null);
  const sensor = answer.data;
  return (
    <Page
      title={sensor?.name ?? "Sensor"}
      crumbs={CRUMBS}
      heading={
        sensor === undefined ? undefined : (
          <span className="row">
            {sensor.name} <SensorState sensor={sensor} />
          </span>
        )
      }
      actions={
        sensor === undefined ? undefined : <SensorActions sensor={sensor} onSecret={setSecret} />
      }
    >
      {secret !== null && <Secret secret={secret} close={() => setSecret(null)} />}
      <Loaded answer={answer}>{(known) => <Known sensor={known} />}</Loaded>
    </Page>
  );
}

function Secret({ secret, close }: { secret: NewSecret; close: () => void }): ReactNode {
  return (
    <Notice tone="good">
      <p>
        The secret of {secret.name}. It is shown this once: <b>keep it now</b>.
      </p>
      <p>
        <code className="sensors-secret">{secret.secret}</code>
      </p>
      <p className="soft">
        Push messages to <code>{`${location.origin}${secret.push_path}`}</code>
        {secret.previous_expires_at !== null && (
          <>
            . The secret before it is good until <Moment at={secret.previous_expires_at} />
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
          I have kept it
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
            <p className="soft sensors-small">Cursor: how far it has looked</p>
            <CursorText cursor={sensor.cursor} />
          </div>
        )}
      </div>
      <Tabs label="Views of the sensor" tabs={tabsOf(sensor, view)} />
      <Views sensor={sensor} view={view} />
      <Section
        title="Definition"
        actions={
          <Link href={`/ledger/${encodeURIComponent(sensor.sensor_id)}?view=history`}>history</Link>
        }
      >
        <Definition sensor={sensor} />
      </Section>
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
      "Last look",
      sensor.last_looked_at === null ? null : (
        <>
          <Time at={sensor.last_looked_at} />
          {looks > 0 && <span className="soft"> ({countText(looks)} without anything new)</span>}
        </>
      ),
    ],
    ["Next look", next_due_at === null ? null : <Time key="next" at={next_due_at} />],
    ["Last message", last_message_at === null ? null : <Time key="message" at={last_message_at} />],
    ["Messages", mode === "push" ? messagesText(sensor) : null],
    ["Evaluations", countText(sensor.evaluations)],
    ["Runs asked for", countText(sensor.runs_requested)],
    ["Secret", mode === "push" ? (sensor.has_secret ? "there is one" : "none yet") : null],
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
            Its last evaluation failed: {visibleText(error.message)} <code>{error.class}</code>
          </p>
        </Notice>
      )}
      {state === "PAUSED" && (
        <Notice tone="warn">
          <p>Paused{reason === null ? "." : `: ${visibleText(reason)}`}</p>
        </Notice>
      )}
      {state === "DELETED" && (
        <Notice tone="wait">
          <p>This sensor is deleted. What it did can still be read.</p>
        </Notice>
      )}
      {lacksWorker(sensor) && <NoWorker />}
    </>
  );
}

function Definition({ sensor }: { sensor: Sensor }): ReactNode {
  const { target } = sensor;
  const hasMore = target !== null && (target.config !== null || target.run_key !== null);
  const labelled = Object.entries(sensor.labels).map(([name, value]) => `${name}=${value}`);
  return (
    <div className="card stack">
      <p className="soft">
        {sensor.origin === "code"
          ? "The project's code defines it: change it there and deploy. It can be paused, " +
            "resumed and evaluated here."
          : "It was made by the API and needs no code. It can be deleted here."}
      </p>
      <Facts
        facts={[
          ["Looks at", watchText(sensor)],
          ["Asks for", targetText(sensor)],
          ["How often", intervalText(sensor)],
          ["An evaluation may take", durationText(sensor.timeout_ms)],
          ["Runs at a time", `at most ${countText(sensor.max_run_requests)}`],
          ["Evaluated by", evaluatorText(sensor)],
          ["Labels", labelled.join(", ")],
          ["Definition", `version ${sensor.definition_version}`],
          ["Created", <Moment key="created" at={sensor.created_at} />],
          ["Id", <code key="id">{sensor.sensor_id}</code>],
        ]}
      />
      {hasMore && <Json label="Target" value={target} />}
    </div>
  );
}
