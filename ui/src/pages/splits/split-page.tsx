import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { ErrorText, LacksShardWorker, Notice } from "../../parts/notice.tsx";
import { Section, SectionColumns } from "../../parts/page.tsx";
import { Phases } from "../../parts/phases.tsx";
import { Status } from "../../parts/status.tsx";
import { durationText } from "../../parts/time-text.ts";
import { Moment, Time } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { LedgerButtons, WorkNow, WorkPage } from "../../parts/work-page.tsx";
import { SplitActions } from "./split-actions.tsx";
import { SplitCopy } from "./split-copy.tsx";
import { SplitLag } from "./split-lag.tsx";
import { SplitProof } from "./split-proof.tsx";
import { SplitRouting } from "./split-routing.tsx";
import { SplitSteps, useSteps } from "./split-steps.tsx";
import {
  followerOf,
  isBusy,
  nextText,
  PHASE_EVENTS,
  phasesOf,
  phaseTimes,
  type Split,
  tenantsText,
} from "./split-texts.ts";
import "./splits.css";

/** How often a split is asked for while a step runs, which says once a second how far it is. */
const EVERY_MS = 1_000;

/** A split: where it stands, what it does, and everything that can be done with it. */
export function SplitPage(): ReactNode {
  const params = { split: useAddressName() };
  const answer = useAnswer(
    "getSplit",
    { params },
    { everyMs: (split) => (isBusy(split) ? EVERY_MS : undefined) },
  );
  return (
    <WorkPage
      answer={answer}
      list={{ text: "Splits", href: "/splits" }}
      title={answer.data === undefined ? "Split" : `Split ${splitName(answer.data)}`}
      state={({ phase }) => <Status state={phase} />}
      actions={({ id }) => <LedgerButtons entity={id} views={["why", "history"]} />}
    >
      {(split) => <Shown key={split.id} split={split} />}
    </WorkPage>
  );
}

function splitName({ source, target, tenants }: Split): string {
  return `${source} → ${target}: ${tenantsText(tenants)}`;
}

function Shown({ split }: { split: Split }): ReactNode {
  const query = { entity: split.id, types: PHASE_EVENTS, limit: 200 };
  const events = useAnswer("listEvents", { query });
  const times = phaseTimes(events.data?.items ?? []);
  return (
    <>
      <Phases label="Phases of the split" phases={phasesOf(split, times)} />
      <WorkNow text={nextText(split)} hasFailed={split.step?.state === "FAILED"}>
        <StepLine split={split} />
        <Trouble split={split} />
      </WorkNow>
      <Section title="Actions">
        <SplitActions split={split} />
      </Section>
      <SectionColumns>
        <Section title={`Lag of ${followerOf(split)}`}>
          <SplitLag split={split} />
        </Section>
        <Section title="Verification">
          <SplitProof split={split} />
        </Section>
      </SectionColumns>
      <SectionColumns>
        <Section title="Copy">
          <SplitCopy split={split} />
        </Section>
        <Section title="Routing">
          <SplitRouting split={split} times={times} />
        </Section>
      </SectionColumns>
      <Section title="Plan">
        <Plan split={split} />
      </Section>
      <Section title="Steps">
        <SplitSteps splitId={split.id} />
      </Section>
    </>
  );
}

function StepLine({ split: { step, write_pause_ms: pause, reason } }: { split: Split }): ReactNode {
  const workerId = step?.worker_id ?? null;
  const retryAt = step?.retry_at ?? null;
  return (
    <p className="soft splits-now-step">
      {step !== null && (
        <span>
          Step {step.n}, <code>{step.step}</code>
          {step.attempt > 1 && `, attempt ${step.attempt}`}{" "}
          {step.state === null ? "ended" : <Status state={step.state} />}
        </span>
      )}
      {workerId !== null && step?.state !== null && (
        <span>
          on <code className="splits-worker">{visibleText(workerId)}</code>
        </span>
      )}
      {retryAt !== null && (
        <span>
          retry <Time at={retryAt} />
        </span>
      )}
      {pause !== null && (
        <span>
          write pause at the last cutover: <strong>{pause.toFixed(1)} ms</strong>
        </span>
      )}
      {reason !== null && <span>reason: {visibleText(reason)}</span>}
    </p>
  );
}

/** What is wrong besides what is said already: a step that has failed says so itself. */
function Trouble({ split }: { split: Split }): ReactNode {
  const { step, error, error_at } = split;
  const isTriedAgain =
    isBusy(split) && step !== null && (step.attempt > 1 || step.retry_at !== null);
  return (
    <>
      {step?.lacks_worker === true && <LacksShardWorker />}
      <FellBack split={split} />
      {error !== null && isTriedAgain && (
        <Notice tone="warn">
          <p>
            <ErrorText error={error} at={error_at} />
          </p>
        </Notice>
      )}
    </>
  );
}

/** Says that the last turn came to nothing, as long as no other was tried. */
function FellBack({ split }: { split: Split }): ReactNode {
  const steps = useSteps(split.id);
  // Between the turn and the step that is shown there is at most the one that keeps both sides equal.
  const fallen = steps.data?.items.find(({ outcome }) => outcome === "fell_back");
  if (fallen === undefined || split.step === null || split.step.n - fallen.n > 1) return null;
  const [serves, what] =
    fallen.step === "cutback" ? [split.target, "rollback"] : [split.source, "cutover"];
  return (
    <Notice tone="warn">
      <p>
        The last {what} failed, and {serves} still serves the tenants:{" "}
        {visibleText(fallen.error?.message ?? fallen.reason ?? "no reason given")} (
        <Time at={fallen.finished_at} />)
      </p>
    </Notice>
  );
}

/** Tenants that are listed at once. */
const TENANTS_SHOWN_MAX = 1_000;

function Plan({ split }: { split: Split }): ReactNode {
  const { tenants } = split;
  return (
    <div className="card">
      <Facts
        facts={[
          [
            "Tenants",
            tenants.length <= 3 ? (
              tenantsText(tenants)
            ) : (
              <details key="tenants">
                <summary>{tenantsText(tenants)}</summary>
                {visibleText(tenants.slice(0, TENANTS_SHOWN_MAX).join(", "))}
              </details>
            ),
          ],
          [
            "Tables",
            split.tables.map(({ table, shard_by }) => `${table} (by ${shard_by})`).join(", "),
          ],
          ["Description", split.description],
          [
            "Planned",
            <span key="planned">
              <Moment at={split.planned_at} /> by {visibleText(split.planned_by)}
            </span>,
          ],
          ["Cutover", split.auto_cutover ? "automatic" : "manual"],
          ["Lag limit", `at most ${durationText(split.lag_limit_ms)}`],
          ["Waits for open writes", `at most ${durationText(split.fence_wait_ms)}`],
          ["Holds writes", `at most ${durationText(split.fence_hold_ms)}`],
          ["Grace period", durationText(split.grace_ms)],
          [
            "Source rows removed from",
            split.remove_after === null || split.removed_at !== null ? null : (
              <Time key="after" at={split.remove_after} />
            ),
          ],
          [
            "Source rows removed",
            split.removed_at === null ? null : <Moment key="removed" at={split.removed_at} />,
          ],
          ["Last error", split.step?.state === "FAILED" ? null : split.error_message],
          ["Failed attempts", split.failures === 0 ? null : String(split.failures)],
          ["Version", String(split.state_version)],
          ["Id", <code key="id">{split.id}</code>],
        ]}
      />
    </div>
  );
}
