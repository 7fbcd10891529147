import type { ReactNode } from "react";
import type { Refusal } from "../../../api/call.ts";
import type { ListAnswer } from "../../../api/use-answer.ts";
import { type Asset, choosing, leadingAsset, withKind } from "./asset-fit.ts";
import { AssetPicker } from "./asset-picker.tsx";
import { bodyOf, type Problems } from "./create-body.ts";
import { PlanCard } from "./plan-card.tsx";
import { PlanOptions } from "./plan-options.tsx";
import { refusedFields } from "./refused-fields.ts";
import { SelectorBuilder } from "./selector-builder.tsx";
import { useChosenAssets } from "./use-chosen-assets.ts";
import { useCreateForm } from "./use-create-form.ts";
import { useCreation } from "./use-creation.ts";
import { usePlan } from "./use-plan.ts";

/** The form on one side, and what will come of it on the other. */
export function PlanBuilder(props: {
  list: ListAnswer<Asset>;
  listed: readonly Asset[];
}): ReactNode {
  const { list, listed } = props;
  const { form: filled, change, isLinked } = useCreateForm();
  const assets = useChosenAssets(listed, filled.assets, list.hasNextPage);
  const chosen = filled.assets.flatMap(
    (key) => assets.find((each) => each.asset_key === key) ?? [],
  );
  const lead = leadingAsset(chosen);
  const form = withKind(filled, lead?.spec.partitions ?? null);
  const draft = bodyOf(form);
  const planned = usePlan(draft.body);
  const creation = useCreation(draft.body, planned);
  const refusal = planned.refusal ?? creation.refusal;
  const refused = refusal === null ? null : refusedFields(refusal, form);
  const problems: Problems = { ...refused?.problems, ...draft.problems };
  return (
    <div className="create">
      <div className="create-form">
        <Part number={1} title="What to fill">
          <AssetPicker
            list={list}
            assets={assets}
            chosen={form.assets}
            lead={lead}
            problem={problems["assets"]}
            onChange={(next) => change(choosing(filled, next, assets))}
          />
        </Part>
        <Part number={2} title="Which partitions">
          {lead === null ? (
            <p className="soft">Choose an asset first.</p>
          ) : (
            <SelectorBuilder
              asset={lead}
              form={form}
              problems={problems}
              wrongKey={wrongKeyOf(refusal)}
              onChange={(fields) => change({ kind: form.kind, ...fields })}
            />
          )}
        </Part>
        <Part number={3} title="How it runs">
          <PlanOptions form={form} problems={problems} onChange={change} />
        </Part>
      </div>
      <PlanCard
        form={form}
        draft={draft}
        planned={planned}
        creation={creation}
        refusal={refused?.isAll === true ? null : refusal}
        hasProblems={Object.keys(problems).length > 0}
        isLinked={isLinked}
        onChange={change}
      />
    </div>
  );
}

function wrongKeyOf(refusal: Refusal | null): string | null {
  const key = refusal?.code === "PARTITION_INVALID" ? refusal.details["partition_key"] : null;
  return typeof key === "string" ? key : null;
}

function Part(props: { number: number; title: string; children: ReactNode }): ReactNode {
  return (
    <section className="card create-part">
      <h2>
        <span className="create-step" aria-hidden="true">
          {props.number}
        </span>
        {props.title}
      </h2>
      {props.children}
    </section>
  );
}
