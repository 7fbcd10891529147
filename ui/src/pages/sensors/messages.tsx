import type { ReactNode } from "react";
import { Link } from "wouter";
import { call } from "../../api/call.ts";
import { useList } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { Json } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { clippedText, visibleText } from "../../parts/visible-text.ts";
import type { Message, Sensor } from "./sensor-texts.ts";

const STATES = [
  ["", "All"],
  ["PENDING", "pending"],
  ["EVALUATED", "evaluated"],
  ["FAILED", "failed"],
] as const;

const FIELDS = [{ name: "message", label: "State", options: STATES }] as const;

/** The messages of a push sensor, newest first. */
export function Messages({ sensor }: { sensor: Sensor }): ReactNode {
  const { sensor_id } = sensor;
  const [{ message }, setFilter] = useFilters(["message"]);
  const query = queryOf({ status: message });
  const list = useList("listMessages", { params: { sensor_id }, query }, { keepPrevious: true });
  return (
    <>
      <Filters of="messages" filters={{ message }} setFilter={setFilter} fields={FIELDS} />
      <ListTable
        label="Messages"
        list={list}
        columns={columnsOf(sensor)}
        keyOf={({ message_id }) => message_id}
        empty={
          message === "" ? (
            <Empty title="No messages yet.">
              <p>
                Push one to{" "}
                <code>{`/api/v1/orchestration/sensors/${sensor.sensor_id}/messages`}</code>, with a{" "}
                <code>Webhook-Id</code> and signed with the sensor's secret.
              </p>
            </Empty>
          ) : (
            <Empty title="No message matches this filter." />
          )
        }
      />
    </>
  );
}

function columnsOf(sensor: Sensor): Column<Message>[] {
  return [
    {
      heading: "Message",
      cell: ({ message_id, eval_id }) =>
        eval_id === null ? (
          <code>{visibleText(message_id)}</code>
        ) : (
          <Link href={evaluationHref(sensor, eval_id)}>
            <code>{visibleText(message_id)}</code>
          </Link>
        ),
    },
    { heading: "State", cell: ({ state }) => <Status state={state} /> },
    { heading: "Received", cell: ({ received_at }) => <Moment at={received_at} /> },
    { heading: "Payload", cell: (message) => <Payload message={message} /> },
    {
      heading: "Source",
      cell: ({ source, message_type }) =>
        message_type === null ? source : `${source} ${message_type}`,
      wideOnly: true,
    },
    {
      heading: "Retry",
      cell: (message) =>
        message.state === "FAILED" ? <Again sensor={sensor} message={message} /> : null,
    },
  ];
}

function evaluationHref({ sensor_id }: Sensor, evalId: string): string {
  return `/sensors/${encodeURIComponent(sensor_id)}?eval=${encodeURIComponent(evalId)}`;
}

function Payload({ message }: { message: Message }): ReactNode {
  const { message_id, payload, payload_length, attributes, state } = message;
  if (payload === null) {
    return (
      <span className="soft">
        {state === "EVALUATED"
          ? "dropped after evaluation"
          : payload_length === null || payload_length <= 4
            ? "null"
            : `too long to show: ${countText(payload_length)} characters`}
      </span>
    );
  }
  const text = JSON.stringify(payload);
  return (
    <details>
      <summary>
        <code>{clippedText(text, 60)}</code>
      </summary>
      <Json label={`Payload of ${message_id}`} value={payload} />
      {attributes !== null && Object.keys(attributes).length > 0 && (
        <Json label={`Attributes of ${message_id}`} value={attributes} />
      )}
    </details>
  );
}

function Again({ sensor, message }: { sensor: Sensor; message: Message }): ReactNode {
  const { message_id } = message;
  return (
    <Action
      label="Evaluate again"
      unavailable={sensor.state === "DELETED" ? "The sensor is deleted." : null}
      consequence={
        <p>
          Evaluates message <code>{visibleText(message_id)}</code> again and triggers its runs. The
          result appears under Evaluations; the message stays marked as failed.
        </p>
      }
      run={() =>
        call("evaluateSensor", {
          params: { sensor_id: sensor.sensor_id },
          body: { message_id, timeout_ms: 20_000 },
        })
      }
    />
  );
}
