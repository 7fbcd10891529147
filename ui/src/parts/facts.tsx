import type { ReactNode } from "react";
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
