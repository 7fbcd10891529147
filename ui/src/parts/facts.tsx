import { Fragment, type ReactNode } from "react";
import { Link } from "wouter";
import { countText } from "./time-text.ts";
import { visibleJson, visibleValue } from "./visible-text.ts";

/** What something is, field by field; fields without a value are left out. */
export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }): ReactNode {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{visibleValue(value)}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A value of the ledger as text, as it stands there. */
export function Json({ value, label }: { value: unknown; label: string }): ReactNode {
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <pre className="json" tabIndex={0} role="region" aria-label={label}>
      {visibleJson(value)}
    </pre>
  );
}

/** An id, shortened in the middle of a text, whole as its title. */
export function Id({ id }: { id: string }): ReactNode {
  const short = id.length > 14 ? `${id.slice(0, 5)}…${id.slice(-6)}` : id;
  return (
    <code title={id} className="id">
      {short}
    </code>
  );
}

/** A value that is not there or not known. */
export function NoValue(): ReactNode {
  return <span className="soft">–</span>;
}

/** A link to a run by its id. */
export function RunLink({ runId }: { runId: string | null }): ReactNode {
  if (runId === null) return <NoValue />;
  return (
    <Link href={`/runs/${encodeURIComponent(runId)}`}>
      <Id id={runId} />
    </Link>
  );
}

/** Assets that are linked one by one. */
const ASSETS_LINKED_MAX = 100;

/** Links to assets, and how many more there are. */
export function AssetLinks({ assets }: { assets: readonly string[] }): ReactNode {
  const more = assets.length - ASSETS_LINKED_MAX;
  return (
    <>
      {assets.slice(0, ASSETS_LINKED_MAX).map((asset, place) => (
        <Fragment key={asset}>
          {place > 0 && ", "}
          <Link href={`/assets/${encodeURIComponent(asset)}`}>{asset}</Link>
        </Fragment>
      ))}
      {more > 0 && ` and ${countText(more)} more`}
    </>
  );
}

/** Labels in a line: `team=sales, tier=gold`. */
export function labelsText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}
