import { type ReactNode, useRef, useState } from "react";
import { useLocation } from "wouter";
import { BACKFILL_RULES } from "../../../../src/work/backfill/rules.ts";
import { whyNot } from "../../../../src/work/command.ts";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import {
  cancelConsequence,
  pauseConsequence,
  resumeConsequence,
  type RetryChoice,
  retryChoices,
  retryConsequence,
} from "./action-texts.ts";
import { type Backfill, backfillHref } from "./backfill-texts.ts";

/** Everything that can be done with a backfill. */
export function BackfillActions({ backfill }: { backfill: Backfill }): ReactNode {
  const { backfill_id, state_version } = backfill;
  const params = { backfill_id };
  const bodyOf = (reason: string, version: number | undefined) => ({
    ...(version === undefined ? {} : { expected_state_version: version }),
    ...(reason === "" ? {} : { reason }),
  });
  return (
    <>
      <Action
        label="Pause"
        consequence={pauseConsequence(backfill)}
        unavailable={whyNot(BACKFILL_RULES.pause, backfill.state, backfill)}
        asksReason
        version={state_version}
        run={(reason, version) => call("pauseBackfill", { params, body: bodyOf(reason, version) })}
      />
      <Action
        label="Resume"
        consequence={resumeConsequence(backfill)}
        unavailable={whyNot(BACKFILL_RULES.resume, backfill.state, backfill)}
        asksReason
        version={state_version}
        run={(reason, version) => call("resumeBackfill", { params, body: bodyOf(reason, version) })}
      />
      <Retune backfill={backfill} />
      <Retry backfill={backfill} />
      <Cancel backfill={backfill} />
    </>
  );
}

function Cancel({ backfill }: { backfill: Backfill }): ReactNode {
  const { backfill_id, state, state_version } = backfill;
  const [chosen, setChosen] = useState(false);
  // Asked a second time, only a harder cancel changes anything.
  const now = chosen || state === "CANCELLING";
  return (
    <Action
      label={state === "CANCELLING" ? "Cancel runs now" : "Cancel"}
      tone="danger"
      consequence={cancelConsequence(backfill, now)}
      unavailable={whyNot(BACKFILL_RULES["cancel --now"], backfill.state, backfill)}
      asksReason
      version={state_version}
      run={(reason, version) =>
        call("cancelBackfill", {
          params: { backfill_id },
          body: {
            now,
            ...(version === undefined ? {} : { expected_state_version: version }),
            ...(reason === "" ? {} : { reason }),
          },
        })
      }
    >
      {state !== "CANCELLING" && (
        <fieldset>
          <legend>Active runs</legend>
          {[[false, "Let them finish"] as const, [true, "Cancel them now"] as const].map(
            ([value, text]) => (
              <label key={text} className="backfills-choice">
                <input
                  type="radio"
                  name="cancel-runs"
                  checked={now === value}
                  onChange={() => setChosen(value)}
                />
                {text}
              </label>
            ),
          )}
        </fieldset>
      )}
    </Action>
  );
}

function Retry({ backfill }: { backfill: Backfill }): ReactNode {
  const { backfill_id } = backfill;
  const [, go] = useLocation();
  const [chosen, setChosen] = useState<RetryChoice | null>(null);
  const [allowOverlap, setAllowOverlap] = useState(false);
  const made = useRef<string | null>(null);
  const choices = retryChoices(backfill);
  const isOffered = choices.some(([offered]) => offered === chosen);
  const choice = (isOffered ? chosen : choices[0]?.[0]) ?? "missing";
  return (
    <Action
      label={backfill.partitions_failed > 0 ? "Retry failed" : "Retry"}
      tone="primary"
      consequence={retryConsequence(backfill)}
      unavailable={whyNot(BACKFILL_RULES["retry-failed"], backfill.state, backfill)}
      run={async () => {
        const what =
          choice === "missing"
            ? { missing: true }
            : { outcomes: choice.split(",") as ("FAILED" | "CANCELLED" | "SKIPPED")[] };
        const body = { ...what, allow_overlap: allowOverlap };
        const answer = await call("retryBackfill", { params: { backfill_id }, body });
        made.current = answer.backfill_id;
        return answer;
      }}
      onDone={() => {
        if (made.current !== null) go(backfillHref(made.current));
      }}
    >
      <fieldset>
        <legend>What to retry</legend>
        {choices.map(([value, text]) => (
          <label key={value} className="backfills-choice">
            <input
              type="radio"
              name="retry"
              checked={choice === value}
              onChange={() => setChosen(value)}
            />
            {text}
          </label>
        ))}
      </fieldset>
      <label className="backfills-choice">
        <input
          type="checkbox"
          checked={allowOverlap}
          onChange={(event) => setAllowOverlap(event.target.checked)}
        />
        Also when another active backfill touches the same partitions
      </label>
    </Action>
  );
}

function Retune({ backfill }: { backfill: Backfill }): ReactNode {
  const { backfill_id, state_version, max_concurrent_runs, priority } = backfill;
  // Null until something is typed: what is half typed, as a lone minus, is an empty text.
  const [runs, setRuns] = useState<string | null>(null);
  const [rank, setRank] = useState<string | null>(null);
  return (
    <Action
      label="Retune"
      consequence={
        "Holds from the next chunk that is planned; what is under way goes on as it is. Fewer runs " +
        "at once make it slower as runs end, more make it faster if workers have room."
      }
      unavailable={whyNot(BACKFILL_RULES.retune, backfill.state, backfill)}
      version={state_version}
      run={async (_reason, version) => {
        const answer = await call("retuneBackfill", {
          params: { backfill_id },
          body: {
            ...(version === undefined ? {} : { expected_state_version: version }),
            max_concurrent_runs: Number(runs ?? max_concurrent_runs),
            priority: Number(rank ?? priority),
          },
        });
        setRuns(null);
        setRank(null);
        return answer;
      }}
    >
      <div className="columns">
        <Field label="Runs at once" hint="1 to 1,000">
          {(control) => (
            <input
              {...control}
              type="number"
              min={1}
              max={1_000}
              required
              value={runs ?? max_concurrent_runs}
              onChange={(event) => setRuns(event.target.value)}
            />
          )}
        </Field>
        <Field label="Priority" hint="-100 to 100; higher goes first">
          {(control) => (
            <input
              {...control}
              type="number"
              min={-100}
              max={100}
              required
              value={rank ?? priority}
              onChange={(event) => setRank(event.target.value)}
            />
          )}
        </Field>
      </div>
    </Action>
  );
}
