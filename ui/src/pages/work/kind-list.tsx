import { type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import type { Json } from "../../../../src/kernel/canonical.ts";
import type { KindDocument, WorkDocument } from "../../../../src/work/work-api.ts";
import { call } from "../../api/call.ts";
import { useAnswer, useList } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { Id } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { Filters } from "../../parts/filters.tsx";
import { kindHref, kindTitle } from "../../parts/kind-names.ts";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { useOnceKey } from "../../parts/use-once-key.ts";
import { WorkList } from "../../parts/work-list.tsx";
import { WorkProgress } from "./work-progress.tsx";

const COLUMNS: readonly Column<WorkDocument>[] = [
  {
    heading: "Id",
    cell: ({ kind, id }) => (
      <Link href={`${kindHref(kind)}/${encodeURIComponent(id)}`}>
        <Id id={id} />
      </Link>
    ),
  },
  { heading: "State", cell: ({ state }) => <Status state={state} /> },
  { heading: "Done", cell: (work) => <WorkProgress work={work} /> },
  { heading: "Created", cell: ({ created_at }) => <Time at={created_at} />, wideOnly: true },
];

/** All work of a kind that has no pages of its own, newest first, and the way to make more. */
export function KindList(): ReactNode {
  const kind = useAddressName();
  const kinds = useAnswer("listKinds", {});
  const known = kinds.data?.items.find((each) => each.kind === kind);
  const [{ status }, setFilter] = useFilters(["status"]);
  const query = queryOf({ status });
  const list = useList("listWork", { params: { kind }, query }, { keepPrevious: true });
  const states = Object.keys(known?.states ?? {}).map((state) => [state, state] as const);
  const fields = [{ name: "status", label: "State", options: [["", "All"], ...states] }] as const;
  return (
    <WorkList
      noun={kind}
      href={kindHref(kind)}
      actions={known !== undefined && <Create kind={known} />}
      filters={
        <Filters of={kindTitle(kind)} filters={{ status }} setFilter={setFilter} fields={fields} />
      }
      isFiltered={status !== ""}
      list={list}
      columns={COLUMNS}
      keyOf={({ id }) => id}
      none={
        <Empty title={`No ${kind}s yet.`}>
          <p>
            Create one here, or with <code>pawl {kind} create</code>.
          </p>
        </Empty>
      }
    />
  );
}

/** A button that makes one, with a field for each of what the kind takes. */
function Create({ kind: { kind, about, input } }: { kind: KindDocument }): ReactNode {
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [, navigate] = useLocation();
  const keyOf = useOnceKey();
  const fields = Object.entries((input["properties"] ?? {}) as Record<string, Json>);
  const run = async (): Promise<{ message: string }> => {
    const body = Object.fromEntries(
      Object.entries(values).flatMap(([field, text]) =>
        text === "" ? [] : [[field, valueOf(text)]],
      ),
    );
    const params = { kind };
    const made = await call("createWork", { params, body, idempotencyKey: keyOf(body) });
    navigate(`${kindHref(kind)}/${encodeURIComponent(made.id)}`);
    return made;
  };
  return (
    <Action label={`Create a ${kind}`} tone="primary" consequence={<p>To {about}.</p>} run={run}>
      {fields.map(([field, schema]) => (
        <Field
          key={field}
          label={field.replaceAll("_", " ")}
          hint={(schema as { description?: string }).description ?? ""}
        >
          {(control) => (
            <input
              {...control}
              value={values[field] ?? ""}
              onChange={(event) => setValues({ ...values, [field]: event.target.value })}
            />
          )}
        </Field>
      ))}
    </Action>
  );
}

/** JSON where it is that, text otherwise; the server says what is wrong with it. */
function valueOf(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}
