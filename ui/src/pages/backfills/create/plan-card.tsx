import { type ReactNode, useId } from "react";
import type { Refusal } from "../../../api/call.ts";
import { useLacks } from "../../../api/session.ts";
import { Notice, Refused } from "../../../parts/notice.tsx";
import type { Drafted } from "./create-body.ts";
import type { CreateForm } from "./create-form.ts";
import { PlanPreview } from "./plan-preview.tsx";
import type { Creation } from "./use-creation.ts";
import type { PlanState } from "./use-plan.ts";

type CardProps = {
  form: CreateForm;
  draft: Drafted;
  planned: PlanState;
  creation: Creation;
  /** What the API said no with, where it is about no field. */
  refusal: Refusal | null;
  hasProblems: boolean;
  isLinked: boolean;
  onChange: (fields: Partial<CreateForm>) => void;
};

/** The preview, and the button that makes exactly that. */
export function PlanCard(props: CardProps): ReactNode {
  const { form, planned, creation, refusal, isLinked, onChange } = props;
  const { plan } = planned;
  const titleId = useId();
  return (
    <section className="card create-plan" aria-labelledby={titleId}>
      <h2 id={titleId}>Preview</h2>
      <div
        className="stack"
        aria-live="polite"
        aria-busy={!planned.isCurrent && props.draft.body !== null}
      >
        {refusal !== null && <Said refusal={refusal} isUnanswered={creation.isUnanswered} />}
        {plan !== null && props.draft.body !== null ? (
          <PlanPreview plan={plan} form={form} onChange={onChange} />
        ) : (
          <p className="soft">{waitText(props)}</p>
        )}
      </div>
      {!isLinked && (
        <Notice tone="warn">
          The list of keys is too long for a link. This plan is lost when you leave the page.
        </Notice>
      )}
      <CreateButton
        label={creation.isUnanswered ? "Try again" : labelOf(plan?.backfills.length ?? 1)}
        why={whyNot(props)}
        isSaid={plan === null}
        creation={creation}
      />
    </section>
  );
}

function labelOf(count: number): string {
  return count === 1 ? "New backfill" : `${count} new backfills`;
}

/** What is shown while there is no plan. */
function waitText(props: CardProps): string {
  return whyNot(props) ?? "";
}

/** Why the button does nothing now. */
function whyNot({ draft, planned, form, creation, hasProblems }: CardProps): string | null {
  // What was sent may be in its own way by now.
  if (creation.isUnanswered) return null;
  if (draft.next !== null) return draft.next;
  if (hasProblems) {
    return "Correct the marked fields first.";
  }
  if (planned.refusal !== null) return "There is no plan: see the reason above.";
  if (!planned.isCurrent) return "Calculating…";
  if ((planned.plan?.overlaps.length ?? 0) > 0 && !form.allow_overlap) {
    return "Allow the overlap, or wait for the other backfill to end.";
  }
  return null;
}

/** A refusal to create; a plan that has changed is shown anew, and is not made unseen. */
function Said(props: { refusal: Refusal; isUnanswered: boolean }): ReactNode {
  const { refusal } = props;
  if (props.isUnanswered) {
    return (
      <Notice tone="bad">
        <p>
          {refusal.message} <code>{refusal.code}</code>
        </p>
        <p>The backfill may have been created. Trying again never creates a second one.</p>
      </Notice>
    );
  }
  if (refusal.code !== "PLAN_CHANGED") return <Refused refusal={refusal} />;
  return (
    <Notice tone="bad">
      <p>
        Nothing was created: the plan has changed since you saw it, because partitions came or a
        definition changed. This is the new one; create it if it is what you want.{" "}
        <code>{refusal.code}</code>
      </p>
    </Notice>
  );
}

function CreateButton(props: {
  label: string;
  why: string | null;
  /** Whether the reason is seen elsewhere already. */
  isSaid: boolean;
  creation: Creation;
}): ReactNode {
  const { label, creation } = props;
  const lacks = useLacks("write");
  const why = lacks ?? props.why;
  const whyId = useId();
  return (
    <div className="stack">
      <button
        type="button"
        className="button button-primary create-button"
        aria-disabled={why !== null || creation.isPending}
        aria-describedby={why === null ? undefined : whyId}
        onClick={() => {
          if (why === null) creation.create();
        }}
      >
        {creation.isPending ? "Creating…" : label}
      </button>
      {why !== null && (
        <p id={whyId} className={props.isSaid && lacks === null ? "visually-hidden" : "field-hint"}>
          {why}
        </p>
      )}
    </div>
  );
}
