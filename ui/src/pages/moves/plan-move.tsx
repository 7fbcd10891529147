import { useMutation } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import type { AnswerOf, PartInput } from "../../../../src/work/operations.ts";
import { call, Refusal } from "../../api/call.ts";
import { useLacks } from "../../api/session.ts";
import { useWholeList } from "../../api/use-answer.ts";
import { announce } from "../../parts/announce.ts";
import { Facts } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { FormButtons } from "../../parts/form-buttons.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Refused } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { counted } from "../../parts/time-text.ts";
import { useAddressQuery } from "../../parts/use-address.ts";
import { useOnceKey } from "../../parts/use-once-key.ts";
import { topologyText } from "./move-texts.ts";
import "./moves.css";

type Body = PartInput<"planMove", "body">;
type Spec = Extract<AnswerOf<"listDefinitions">["items"][number]["spec"], { kind: "move" }>;

/** Definitions of moves that can be chosen from. */
const MOVES_MAX = 2_000;

/** The choice of a plan that stands in no definition. */
const OWN = "\u0000own";

const EXAMPLE = `{
  "from": { "by": "tenant", "tenants": {}, "default": "east" },
  "to": { "by": "tenant", "tenants": { "fir": "west" }, "default": "east" }
}`;

/** Plans a move: by a definition or by a plan of its own, for real or to see how large it is. */
export function PlanMove(): ReactNode {
  const answer = useWholeList(
    "listDefinitions",
    { query: { kind: "move", limit: 200 } },
    MOVES_MAX,
  );
  return (
    <Page title="Plan a move" crumbs={[{ text: "Moves", href: "/moves" }]}>
      <Loaded answer={answer}>
        {({ items }) => (
          <PlanForm specs={items.flatMap(({ spec }) => (spec.kind === "move" ? [spec] : []))} />
        )}
      </Loaded>
    </Page>
  );
}

/** A wish as it is sent; refuses a text that is no plan before anybody is asked. */
function bodyOf(choice: string, text: string, dry_run: boolean): Body {
  if (choice !== OWN) return { move: choice, dry_run };
  try {
    return { plan: JSON.parse(text) as NonNullable<Body["plan"]>, dry_run };
  } catch (error) {
    throw new Refusal({
      code: "INPUT_INVALID",
      status: 400,
      detail: `The plan is not JSON: ${error instanceof Error ? error.message : "cannot be read"}.`,
      errors: [{ field: "body.plan", message: "must be JSON" }],
    });
  }
}

function PlanForm({ specs }: { specs: readonly Spec[] }): ReactNode {
  const search = useAddressQuery();
  const [choice, setChoice] = useState(search.get("move") ?? specs[0]?.name ?? OWN);
  const [text, setText] = useState("");
  const [, go] = useLocation();
  const keyOf = useOnceKey();
  const mayNot = useLacks("write");
  const plan = useMutation<AnswerOf<"planMove">, Refusal, boolean>({
    mutationFn: async (dryRun) => {
      const body = bodyOf(choice, text, dryRun);
      return call("planMove", { body, idempotencyKey: keyOf(body) });
    },
    onSuccess: ({ move_id, message }) => {
      announce(message);
      go(`/moves/${move_id}`);
    },
  });
  const problems = (plan.error?.fields ?? []).map(({ field, message }) =>
    `${field.replace(/^body\.(?:plan\.?)?/, "")} ${message}`.trim(),
  );
  const spec = specs.find(({ name }) => name === choice);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    plan.mutate(false);
  };
  return (
    <form className="card plan-form" onSubmit={submit} noValidate>
      <p>
        A move takes rows that nobody writes to from one shard layout to another. Planning copies
        nothing; it only counts rows. For tenants with live writes,{" "}
        <Link href="/splits/new">plan a split</Link>.
      </p>
      <Field
        label="Definition"
        hint={specs.length === 0 ? "None published yet; define one with move()." : undefined}
      >
        {(control) => (
          <select {...control} value={choice} onChange={(event) => setChoice(event.target.value)}>
            {specs.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
            <option value={OWN}>A plan as JSON</option>
          </select>
        )}
      </Field>
      {spec !== undefined && <Definition spec={spec} />}
      {choice === OWN && <OwnPlan text={text} setText={setText} problems={problems} />}
      {plan.error !== null && (problems.length === 0 || choice !== OWN) && (
        <Refused refusal={plan.error} />
      )}
      <FormButtons label="Plan the move" isPending={plan.isPending} mayNot={mayNot} back="/moves">
        <button
          type="button"
          className="button"
          disabled={plan.isPending || mayNot !== null}
          onClick={() => plan.mutate(true)}
        >
          Dry run
        </button>
      </FormButtons>
    </form>
  );
}

function Definition({ spec }: { spec: Spec }): ReactNode {
  return (
    <Facts
      facts={[
        ["Description", spec.description],
        ["From", topologyText(spec.from)],
        ["To", topologyText(spec.to)],
        ["Tables", spec.tables?.join(", ") ?? "all"],
        ["Concurrency", counted(spec.segment_concurrency, "segment")],
        [
          "Afterwards",
          spec.keep_source ? "source keeps its rows" : "rows are removed from the source",
        ],
      ]}
    />
  );
}

function OwnPlan(props: {
  text: string;
  setText: (text: string) => void;
  problems: readonly string[];
}): ReactNode {
  const { text, setText, problems } = props;
  return (
    <Field
      label="Plan"
      problem={problems.length === 0 ? undefined : problems.join("; ")}
      hint="Both layouts as JSON, with the options of a plan."
    >
      {(control) => (
        <textarea
          {...control}
          className="mono"
          rows={8}
          spellCheck={false}
          placeholder={EXAMPLE}
          aria-invalid={problems.length > 0 || undefined}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      )}
    </Field>
  );
}
