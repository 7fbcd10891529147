import { type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { whyNot } from "../../../../src/work/command.ts";
import { SENSOR_RULES } from "../../../../src/work/definition/rules.ts";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { MoveCursor } from "./move-cursor.tsx";
import { resumeConsequence, type Sensor } from "./sensor-texts.ts";

/** A secret as it is shown once. */
export type NewSecret = AnswerOf<"createSensorSecret">;

/** What can be done with a sensor. */
export function SensorActions(props: {
  sensor: Sensor;
  onSecret: (secret: NewSecret) => void;
}): ReactNode {
  const { sensor, onSecret } = props;
  const { sensor_id, name, mode, state, state_version } = sensor;
  const params = { sensor_id };
  const bodyOf = (reason: string, version: number | undefined) => ({
    ...expected(version),
    ...(reason === "" ? {} : { reason }),
  });
  const [, go] = useLocation();
  return (
    <>
      {state === "PAUSED" ? (
        <Action
          label="Resume"
          asksReason
          unavailable={whyNot(SENSOR_RULES.resume, state, sensor)}
          consequence={<p>{resumeConsequence(sensor)}</p>}
          version={state_version}
          run={(reason, version) => call("resumeSensor", { params, body: bodyOf(reason, version) })}
        />
      ) : (
        <Action
          label="Pause"
          asksReason
          unavailable={whyNot(SENSOR_RULES.pause, state, sensor)}
          consequence={
            <p>
              {mode === "push"
                ? "Messages that come are kept, and evaluated when it is resumed."
                : "It does not poll until it is resumed; its cursor stays."}{" "}
              What it triggered already goes on.
            </p>
          }
          // Bound to no version: each evaluation makes another, and a busy sensor is to be stopped too.
          run={(reason) => call("pauseSensor", { params, body: bodyOf(reason, undefined) })}
        />
      )}
      {mode === "push" ? (
        <MakeSecret sensor={sensor} onSecret={onSecret} />
      ) : (
        <MoveCursor sensor={sensor} />
      )}
      {sensor.origin === "api" && state !== "DELETED" && (
        <Action
          label="Delete"
          tone="danger"
          consequence={
            <p>
              {name} never acts again, and its name is free for another.{" "}
              {mode === "push" && "Messages that are pushed to it are refused. "}
              Its evaluations, runs and history stay. This cannot be undone.
            </p>
          }
          version={state_version}
          run={(_, version) => call("deleteSensor", { params, query: expected(version) })}
          onDone={() => go("/sensors")}
        />
      )}
    </>
  );
}

/** The version that a change is for, as requests say it. */
function expected(version: number | undefined): { expected_state_version?: number } {
  return version === undefined ? {} : { expected_state_version: version };
}

function MakeSecret(props: { sensor: Sensor; onSecret: (secret: NewSecret) => void }): ReactNode {
  const { sensor, onSecret } = props;
  const [hours, setHours] = useState("24");
  return (
    <Action
      label={sensor.has_secret ? "Replace the secret" : "Create a secret"}
      unavailable={whyNot(SENSOR_RULES.secret, sensor.state, sensor)}
      consequence={
        <p>
          A new secret is made and shown once: those who push messages sign them with it.{" "}
          {sensor.has_secret
            ? "The one before stays good for a while, so that senders can change over."
            : "With it messages can be pushed without a token."}
        </p>
      }
      run={async () => {
        const made = await call("createSensorSecret", {
          params: { sensor_id: sensor.sensor_id },
          body: { overlap_seconds: Math.round(Number(hours) * 3_600) },
        });
        onSecret(made);
        return made;
      }}
    >
      {sensor.has_secret && (
        <Field label="The one before stays good for (hours)" hint="0 ends it at once.">
          {(control) => (
            <input
              {...control}
              type="number"
              min={0}
              max={720}
              step="any"
              value={hours}
              onChange={(event) => setHours(event.target.value)}
            />
          )}
        </Field>
      )}
    </Action>
  );
}
