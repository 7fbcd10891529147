import { type ReactNode, useState } from "react";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { effectOf, type MoveCommand, whyNot } from "./move-commands.ts";
import { counted } from "../../parts/time-text.ts";
import type { Move } from "./move-texts.ts";

const COMMANDS: readonly (readonly [command: MoveCommand, label: string])[] = [
  ["start", "Start"],
  ["pause", "Pause"],
  ["resume", "Resume"],
  ["verify", "Verify"],
  ["retry", "Retry all quarantined"],
  ["retune", "Retune"],
  ["cancel", "Cancel move"],
];

/** Everything that can be done with a move. */
export function MoveActions({ move }: { move: Move }): ReactNode {
  return (
    <div className="row">
      {COMMANDS.map(([command, label]) => (
        <MoveAction key={command} move={move} command={command} label={label} />
      ))}
    </div>
  );
}

function toneOf(move: Move, command: MoveCommand): "plain" | "primary" | "danger" {
  if (effectOf(move, command) === null) return "plain";
  if (command === "cancel") return "danger";
  return command === "start" || command === "resume" ? "primary" : "plain";
}

/** What was typed to retune a move. */
type Tuning = { concurrency: string; rate: string };

function MoveAction(props: { move: Move; command: MoveCommand; label: string }): ReactNode {
  const { move, command, label } = props;
  const [tuning, setTuning] = useState<Tuning | null>(null);
  const shown = tuning ?? {
    concurrency: String(move.segment_concurrency),
    rate: move.rows_per_second === null ? "" : String(move.rows_per_second),
  };
  return (
    <Action
      label={label}
      tone={toneOf(move, command)}
      asksReason={command !== "retune" && command !== "verify"}
      unavailable={whyNot(move, command)}
      consequence={<Consequence move={move} command={command} />}
      version={move.state_version}
      run={(reason, version) => carryOut(move, command, version, reason, shown)}
      onDone={() => setTuning(null)}
    >
      {command === "retune" && <TuningFields tuning={shown} onChange={setTuning} />}
    </Action>
  );
}

function TuningFields(props: { tuning: Tuning; onChange: (tuning: Tuning) => void }): ReactNode {
  const { tuning, onChange } = props;
  return (
    <>
      <Field label="Segments at once" hint="From 1 to 64.">
        {(control) => (
          <input
            {...control}
            inputMode="numeric"
            value={tuning.concurrency}
            onChange={(event) => onChange({ ...tuning, concurrency: event.target.value })}
          />
        )}
      </Field>
      <Field label="Rows a second at most" hint="By all workers together; empty for no limit.">
        {(control) => (
          <input
            {...control}
            inputMode="numeric"
            value={tuning.rate}
            onChange={(event) => onChange({ ...tuning, rate: event.target.value })}
          />
        )}
      </Field>
    </>
  );
}

function Consequence(props: { move: Move; command: MoveCommand }): ReactNode {
  const { move, command } = props;
  const effect = effectOf(move, command);
  return (
    <div className="stack">
      {effect !== null && (
        <p>
          It {effect}
          {effect.endsWith(".") ? "" : "."}
        </p>
      )}
      <More move={move} command={command} />
    </div>
  );
}

/** What is worth knowing besides. */
function More({ move, command }: { move: Move; command: MoveCommand }): ReactNode {
  switch (command) {
    case "start":
      return (
        <p>
          {move.surveyed ? "" : "At least "}
          {counted(move.rows_estimated, "row")} in {counted(move.segments_total, "segment")} go from{" "}
          {move.shards_from.join(", ")} to {move.shards_to.join(", ")}. It is for{" "}
          <strong>rows at rest</strong>: nobody should write to them until it is done.
          {!move.keep_source &&
            " Nothing is removed before all of it is copied and found equal on both sides."}
        </p>
      );
    case "cancel":
      return (
        <p>
          {move.state === "PLANNED"
            ? "Nothing was copied yet. "
            : "What was copied stays on both sides, and what was removed from its old shard is on " +
              "the new one only. "}
          It cannot be started again.
        </p>
      );
    case "retry":
      return (
        <p>
          {counted(move.segments_poisoned, "segment")} will go on where{" "}
          {move.segments_poisoned === 1 ? "it" : "they"} stood. That helps once the cause is gone.
        </p>
      );
    case "verify":
      return (
        <p>
          {move.state === "COMPLETE"
            ? "All shards are searched for rows that are not where they belong. "
            : ""}
          It reads much and changes nothing.
        </p>
      );
    default:
      return null;
  }
}

function carryOut(
  move: Move,
  command: MoveCommand,
  version: number | undefined,
  reason: string,
  tuning: Tuning,
): Promise<{ message: string }> {
  const params = { move: move.move_id };
  const expected = { expected_state_version: version ?? move.state_version };
  const body = { ...expected, ...(reason === "" ? {} : { reason }) };
  switch (command) {
    case "start":
      return call("startMove", { params, body });
    case "pause":
      return call("pauseMove", { params, body });
    case "resume":
      return call("resumeMove", { params, body });
    case "cancel":
      return call("cancelMove", { params, body });
    case "verify":
      return call("verifyMove", { params, body });
    case "retry":
      return call("retryMove", { params, body });
    case "retune": {
      const rate = tuning.rate.trim();
      const tuned = {
        segment_concurrency: Number(tuning.concurrency),
        rows_per_second: rate === "" ? null : Number(rate),
      };
      return call("retuneMove", { params, body: { ...expected, ...tuned } });
    }
  }
}
