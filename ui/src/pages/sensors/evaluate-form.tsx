import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { AnswerOf, PartInput } from "../../../../src/work/operations.ts";
import { call, Refusal } from "../../api/call.ts";
import { useLacks } from "../../api/session.ts";
import { Action } from "../../parts/action.tsx";
import { Facts } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { Notice, Refused } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import { labelsOf } from "../runs/typed-lines.ts";
import { CursorChange } from "./cursor-change.tsx";
import { RunRequests } from "./run-requests.tsx";
import type { Sensor } from "./sensor-texts.ts";

type Evaluated = AnswerOf<"evaluateSensor">;
type Body = PartInput<"evaluateSensor", "body">;

/** How long the page waits for an evaluation. */
const TIMEOUT_MS = 20_000;

/** Evaluates a sensor with a sample: as a rehearsal that changes nothing, or for real. */
export function EvaluateForm({ sensor }: { sensor: Sensor }): ReactNode {
  const { sensor_id, mode, state } = sensor;
  const [payload, setPayload] = useState("{}");
  const [attributes, setAttributes] = useState("");
  const [answer, setAnswer] = useState<Evaluated | null>(null);
  const lacks = useLacks("write");
  const client = useQueryClient();
  const evaluate = async (dry_run: boolean): Promise<Evaluated> => {
    const sample = mode === "push" ? sampleOf(payload, attributes) : {};
    const body: Body = { ...sample, dry_run, timeout_ms: TIMEOUT_MS };
    const evaluated = await call("evaluateSensor", { params: { sensor_id }, body });
    setAnswer(evaluated);
    return evaluated;
  };
  const rehearsal = useMutation<Evaluated, Refusal>({
    mutationFn: () => evaluate(true),
    onMutate: () => setAnswer(null),
    onSettled: () => client.invalidateQueries(),
  });
  const gone = state === "DELETED" ? "The sensor is deleted." : null;
  return (
    <div className="sensors-form">
      {/* Of one that acts by itself the page says so above. */}
      {state === "PAUSED" && !sensor.has_worker && <NoWorker />}
      {mode === "push" && (
        <>
          <Lines
            label="Payload"
            hint="JSON, as in a message."
            value={payload}
            onChange={setPayload}
          />
          <Lines
            label="Attributes (optional)"
            hint="One per line, as name=value."
            value={attributes}
            onChange={setAttributes}
          />
        </>
      )}
      <div className="row">
        <button
          type="button"
          className="button button-primary"
          disabled={rehearsal.isPending || (lacks ?? gone) !== null}
          title={lacks ?? gone ?? undefined}
          onClick={() => rehearsal.mutate()}
        >
          {rehearsal.isPending ? "Evaluating…" : "Dry run"}
        </button>
        <Action
          label="Evaluate for real"
          unavailable={gone}
          consequence={
            <p>
              {mode === "push"
                ? "Evaluates the sample as a message and triggers its runs."
                : "Polls now, triggers the runs and moves the cursor."}
              {state === "PAUSED" && " This works although the sensor is paused."}
            </p>
          }
          run={() => evaluate(false)}
        />
        <span className="soft">A dry run shows the result and changes nothing.</span>
      </div>
      {rehearsal.error !== null && <Refused refusal={rehearsal.error} />}
      {answer !== null && <Outcome answer={answer} mode={mode} />}
    </div>
  );
}

/** Says that nobody is there who could evaluate the sensor, and what to do. */
export function NoWorker(): ReactNode {
  return (
    <Notice tone="warn">
      <p>
        No worker that can evaluate this sensor has polled lately. Start <code>pawl worker</code> in
        the project.
      </p>
    </Notice>
  );
}

function sampleOf(payload: string, attributes: string): Pick<Body, "payload" | "attributes"> {
  return {
    payload: payloadOf(payload),
    ...(attributes.trim() === "" ? {} : { attributes: labelsOf(attributes) }),
  };
}

function payloadOf(text: string): Body["payload"] {
  if (text.trim() === "") return null;
  try {
    return JSON.parse(text) as Body["payload"];
  } catch (error) {
    const detail = `The payload is not JSON: ${(error as SyntaxError).message}.`;
    throw new Refusal({ code: "INPUT_INVALID", status: 0, detail });
  }
}

function Outcome({ answer, mode }: { answer: Evaluated; mode: Sensor["mode"] }): ReactNode {
  return (
    <div className="card stack" role="status">
      <h2>{answer.dry_run ? "Dry run result" : "Result"}</h2>
      <p>
        {visibleText(answer.message)}
        {answer.dry_run && " Nothing was changed."}
      </p>
      <Facts
        facts={[
          ["Outcome", <Status key="status" state={answer.status} />],
          [
            "Cursor",
            mode === "push" ? null : (
              <CursorChange
                key="cursor"
                before={answer.cursor_before}
                after={answer.cursor_after}
                most={20}
              />
            ),
          ],
          ["Runs", <RunRequests key="runs" requests={answer.run_requests} most={50} />],
        ]}
      />
    </div>
  );
}

function Lines(props: {
  label: string;
  hint: string;
  value: string;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field label={props.label} hint={props.hint}>
      {(control) => (
        <textarea
          {...control}
          rows={4}
          spellCheck={false}
          className="mono"
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
