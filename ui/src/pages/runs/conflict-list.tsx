import type { ReactNode } from "react";
import { Link } from "wouter";
import { type ItemOf, useList } from "../../api/use-answer.ts";
import { Id } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { More } from "../../parts/table.tsx";
import { Moment, Time } from "../../parts/time.tsx";
import { runHref } from "./run-texts.ts";
import "./runs.css";
import { Trigger, type TriggerNames, useTriggerNames } from "./trigger.tsx";

type Conflict = ItemOf<"listConflicts">;
type Side = Conflict["first"];
type Differing = Conflict["differences"][number];

/** Requests that used the run key of another one, each beside the one it ran into. */
export function ConflictList(): ReactNode {
  const list = useList("listConflicts", { query: { limit: 20 } });
  const names = useTriggerNames(
    (list.data?.items ?? []).flatMap(({ first, conflicting }) => [
      first.trigger_source_ref,
      conflicting.trigger_source_ref,
    ]),
  );
  return (
    <Page title="Conflicts">
      <p className="soft runs-conflict-intro">
        A run key belongs to one request. A later request with the same key but other content makes
        no run and is listed here.
      </p>
      <Loaded answer={list}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No conflicts.">
              <p>Every run key was used for one request only.</p>
            </Empty>
          ) : (
            <div className="stack runs-conflicts">
              {items.map((conflict) => (
                <ConflictCard key={conflict.pos} conflict={conflict} names={names} />
              ))}
              <More list={list} />
            </div>
          )
        }
      </Loaded>
    </Page>
  );
}

const FIELDS: readonly (readonly [Differing, string])[] = [
  ["asset_selection", "Assets"],
  ["partition_selection", "Partitions"],
  ["config", "Config"],
];

function ConflictCard(props: { conflict: Conflict; names: TriggerNames }): ReactNode {
  const { conflict, names } = props;
  const { run_key, run_id, detected_at, first, conflicting, differences } = conflict;
  const told = FIELDS.filter(([field]) => differences.includes(field)).map(([, text]) => text);
  return (
    <article className="card">
      <h2 className="runs-conflict-title">
        <code>{run_key}</code>
      </h2>
      <p>
        {told.length === 0 ? "No difference in the fields shown" : `Differs in: ${told.join(", ")}`}
        . Found <Time at={detected_at} />. The run of the first request is{" "}
        <Link href={runHref(run_id)}>
          <Id id={run_id} />
        </Link>
        .
      </p>
      <div
        className="table-scroll"
        role="region"
        aria-label={`Requests under ${run_key}`}
        tabIndex={0}
      >
        <table className="runs-conflict">
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">First request (made the run)</th>
              <th scope="col">Later request (made none)</th>
            </tr>
          </thead>
          <tbody>
            {FIELDS.map(([field, text]) => {
              const isDifferent = differences.includes(field);
              return (
                <tr key={field} className={isDifferent ? "runs-conflict-different" : undefined}>
                  <th scope="row">
                    {text}
                    {isDifferent && <span className="runs-conflict-sign"> ≠ differs</span>}
                  </th>
                  <td>{fieldText(first, field)}</td>
                  <td>{fieldText(conflicting, field)}</td>
                </tr>
              );
            })}
            <tr>
              <th scope="row">Triggered by</th>
              <td>
                <Trigger source={first.trigger_source_ref} names={names} isWhole />
              </td>
              <td>
                <Trigger source={conflicting.trigger_source_ref} names={names} isWhole />
              </td>
            </tr>
            <tr>
              <th scope="row">Recorded</th>
              <td>
                <Recorded side={first} />
              </td>
              <td>
                <Recorded side={conflicting} />
              </td>
            </tr>
          </tbody>
        </table>
      </div>
    </article>
  );
}

function Recorded({ side }: { side: Side }): ReactNode {
  return (
    <>
      <Moment at={side.occurred_at} /> by {side.actor.principal}, position {side.pos}
    </>
  );
}

/** Items of a list that are written out; a thousand keys would hide the rest. */
const ITEMS_SHOWN = 50;

function fieldText(side: Side, field: Differing): ReactNode {
  if (field === "config")
    return <code className="runs-conflict-json">{JSON.stringify(side.config)}</code>;
  const items = side[field];
  if (items === null) return <span className="soft">none</span>;
  const rest = items.length - ITEMS_SHOWN;
  return `${items.slice(0, ITEMS_SHOWN).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}
