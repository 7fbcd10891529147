import { useMutation } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import type { PartInput } from "../../../../src/work/operations.ts";
import { call, type Refusal } from "../../api/call.ts";
import { useLacks } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { announce } from "../../parts/announce.ts";
import { Field } from "../../parts/field.tsx";
import { FormButtons } from "../../parts/form-buttons.tsx";
import { Loading } from "../../parts/loaded.tsx";
import { Empty, Refused } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { useAddressQuery } from "../../parts/use-address.ts";
import { useOnceKey } from "../../parts/use-once-key.ts";
import { type ShardsSpec, useShards } from "../../parts/use-shards.ts";
import { PlanLimits } from "./plan-limits.tsx";
import { planProblems } from "./plan-problems.ts";
import "./splits.css";

type Body = PartInput<"planSplit", "body">;

const FIELDS = [
  "source",
  "target",
  "tenants",
  "description",
  "lag_limit_ms",
  "fence_wait_ms",
  "fence_hold_ms",
  "grace_ms",
] as const;

/** What was typed into the form. */
export type Typed = Record<(typeof FIELDS)[number], string> & { auto_cutover: boolean };

/** Plans a split: whose rows go, from where to where. */
export function PlanSplit(): ReactNode {
  const shards = useShards();
  return (
    <Page title="Plan a split" crumbs={[{ text: "Splits", href: "/splits" }]}>
      {shards === undefined && <Loading />}
      {shards === null && (
        <Empty title="No shards yet.">
          <p>
            Define your shards in <code>pawl.config.ts</code> with <code>shards()</code>, and start
            a worker there.
          </p>
        </Empty>
      )}
      {shards !== undefined && shards !== null && <PlanForm shards={shards} />}
    </Page>
  );
}

function bodyOf(typed: Typed): Body {
  const numbers = ["lag_limit_ms", "fence_wait_ms", "fence_hold_ms", "grace_ms"] as const;
  return {
    source: typed.source,
    target: typed.target,
    tenants: typed.tenants
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== ""),
    ...(typed.description.trim() === "" ? {} : { description: typed.description.trim() }),
    ...(typed.auto_cutover ? { auto_cutover: true } : {}),
    ...Object.fromEntries(
      numbers.flatMap((name) => (typed[name].trim() === "" ? [] : [[name, Number(typed[name])]])),
    ),
  };
}

/** What a plan cannot do without. */
function lackingOf({ source, target, tenants }: Typed): Record<string, string> {
  return {
    ...(source === "" ? { source: "Choose the source shard." } : {}),
    ...(target === "" ? { target: "Choose the target shard." } : {}),
    ...(tenants.trim() === "" ? { tenants: "Name at least one tenant." } : {}),
  };
}

function useTyped(shards: ShardsSpec): [Typed, (change: Partial<Typed>) => void] {
  const search = useAddressQuery();
  const routing = useAnswer("getRouting", {});
  const [typed, setTyped] = useState<Partial<Typed>>({});
  const source = typed.source ?? search.get("source") ?? routing.data?.default_shard ?? "";
  const others = shards.shards.map(({ shard }) => shard).filter((shard) => shard !== source);
  const target = typed.target ?? search.get("target") ?? (others.length === 1 ? others[0] : "");
  const whole: Typed = {
    tenants: search.getAll("tenant").join("\n"),
    description: "",
    lag_limit_ms: "",
    fence_wait_ms: "",
    fence_hold_ms: "",
    grace_ms: "",
    auto_cutover: false,
    ...typed,
    source,
    target: target ?? "",
  };
  return [whole, (change) => setTyped((before) => ({ ...before, ...change }))];
}

/** Brings whoever uses the keyboard to the first field that something is wrong with. */
function useFocusOnProblem(form: RefObject<HTMLFormElement | null>, problems: unknown): void {
  useEffect(() => {
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [form, problems]);
}

function PlanForm({ shards }: { shards: ShardsSpec }): ReactNode {
  const [typed, change] = useTyped(shards);
  const [, go] = useLocation();
  const keyOf = useOnceKey();
  const mayNot = useLacks("write");
  const plan = useMutation<{ split_id: string; message: string }, Refusal, Body>({
    mutationFn: (body) => call("planSplit", { body, idempotencyKey: keyOf(body) }),
    onSuccess: ({ split_id, message }) => {
      announce(message);
      go(`/splits/${split_id}`);
    },
  });
  const [lacking, setLacking] = useState<Readonly<Record<string, string>>>({});
  const said = planProblems(plan.error, FIELDS);
  const at = { ...said.at, ...lacking };
  const form = useRef<HTMLFormElement>(null);
  useFocusOnProblem(form, plan.error ?? lacking);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const lacks = lackingOf(typed);
    setLacking(lacks);
    if (Object.keys(lacks).length > 0) plan.reset();
    else plan.mutate(bodyOf(typed));
  };
  const isInvalid = (name: string) => (at[name] === undefined ? undefined : true);
  return (
    <form ref={form} className="card plan-form" onSubmit={submit} noValidate>
      <p>
        A split moves tenants with live writes to another shard. Planning only checks both shards;
        you start every further step.
      </p>
      <div className="columns">
        <ShardField
          label="From"
          hint="The shard of the tenants now."
          value={typed.source}
          problem={at["source"]}
          shards={shards}
          onChange={(source) => change({ source })}
        />
        <ShardField
          label="To"
          hint="Same engine, same tables."
          value={typed.target}
          problem={at["target"]}
          shards={shards}
          onChange={(target) => change({ target })}
        />
      </div>
      <Field label="Tenants" hint="One per line." problem={at["tenants"]}>
        {(control) => (
          <textarea
            {...control}
            rows={3}
            spellCheck={false}
            aria-invalid={isInvalid("tenants")}
            value={typed.tenants}
            onChange={(event) => change({ tenants: event.target.value })}
          />
        )}
      </Field>
      <p className="soft">
        Rows of these tables are moved:{" "}
        {shards.tables.map(({ table, shard_by }) => `${table} (by ${shard_by})`).join(", ")}.
      </p>
      <Field label="Description (optional)" problem={at["description"]}>
        {(control) => (
          <input
            {...control}
            maxLength={2_000}
            aria-invalid={isInvalid("description")}
            value={typed.description}
            onChange={(event) => change({ description: event.target.value })}
          />
        )}
      </Field>
      <PlanLimits typed={typed} change={change} problems={at} />
      {plan.error !== null && !said.isAllSaid && <Refused refusal={plan.error} />}
      <FormButtons
        label="Plan the split"
        isPending={plan.isPending}
        mayNot={mayNot}
        back="/splits"
      />
    </form>
  );
}

function ShardField(props: {
  label: string;
  hint: string;
  value: string;
  problem: string | undefined;
  shards: ShardsSpec;
  onChange: (shard: string) => void;
}): ReactNode {
  const { label, hint, value, problem, shards, onChange } = props;
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(control) => (
        <select
          {...control}
          aria-invalid={problem === undefined ? undefined : true}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        >
          <option value="">Choose a shard</option>
          {shards.shards.map(({ shard, engine }) => (
            <option key={shard} value={shard}>
              {shard} ({engine})
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
