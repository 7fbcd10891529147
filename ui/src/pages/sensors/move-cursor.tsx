import { type ReactNode, useState } from "react";
import { whyNot } from "../../../../src/work/command.ts";
import { SENSOR_RULES } from "../../../../src/work/definition/rules.ts";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Choice, Field } from "../../parts/field.tsx";
import { clippedText } from "../../parts/visible-text.ts";
import type { Sensor } from "./sensor-texts.ts";

const CONSEQUENCE =
  "The sensor finds everything after the cursor again. Runs whose key exists are not repeated; " +
  "others are triggered. A running evaluation is ignored.";

/** Moves the cursor of a sensor to the start, or to a place that is typed. */
export function MoveCursor({ sensor }: { sensor: Sensor }): ReactNode {
  const [place, setPlace] = useState("start");
  const [typed, setTyped] = useState<string | null>(null);
  // Until somebody types, it begins with where the cursor is, which moves on by itself.
  const text = typed ?? sensor.cursor ?? "";
  return (
    <Action
      label="Move the cursor"
      tone="danger"
      asksReason
      unavailable={whyNot(SENSOR_RULES["reset-cursor"], sensor.state, sensor)}
      consequence={<p>{CONSEQUENCE}</p>}
      version={sensor.state_version}
      run={(reason, version) => moved(sensor, place === "start" ? null : text, reason, version)}
      onDone={() => setTyped(null)}
    >
      <Choice
        label="To"
        value={place}
        options={[
          ["start", "the start"],
          ["text", "a given cursor"],
        ]}
        onChange={setPlace}
      />
      {place === "text" && (
        <Field label="Cursor" hint="As shown in the list of evaluations.">
          {(control) => (
            <textarea
              {...control}
              rows={4}
              spellCheck={false}
              className="mono"
              value={text}
              onChange={(event) => setTyped(event.target.value)}
            />
          )}
        </Field>
      )}
    </Action>
  );
}

/** Moves the cursor of a sensor back to where it was before an evaluation. */
export function Rewind({ sensor, cursor }: { sensor: Sensor; cursor: string | null }): ReactNode {
  return (
    <Action
      label="Rewind to before this"
      asksReason
      unavailable={whyNot(SENSOR_RULES["reset-cursor"], sensor.state, sensor)}
      consequence={
        <>
          <p>
            The cursor goes back to{" "}
            {cursor === null ? (
              "the start"
            ) : (
              <code className="sensors-secret">{clippedText(cursor, 200)}</code>
            )}
            .
          </p>
          <p>{CONSEQUENCE}</p>
        </>
      }
      version={sensor.state_version}
      run={(reason, version) => moved(sensor, cursor, reason, version)}
    />
  );
}

function moved(
  { sensor_id }: Sensor,
  cursor: string | null,
  reason: string,
  version: number | undefined,
) {
  return call("resetCursor", {
    params: { sensor_id },
    body: {
      cursor,
      ...(version === undefined ? {} : { expected_state_version: version }),
      ...(reason === "" ? {} : { reason }),
    },
  });
}
