import type { ReactNode } from "react";
import { Link } from "wouter";
import { Facts, Json } from "./facts.tsx";
import { Notice } from "./notice.tsx";
import { Section } from "./page.tsx";
import { Time } from "./time.tsx";
import { visibleText } from "./visible-text.ts";
import { ledgerHref } from "./work-page.tsx";

/** The definition of a schedule or a sensor: where it is changed, and what it says. */
export function Definition(props: {
  entity: string;
  origin: string;
  /** What else can be done on the page where code defines it: `triggered`. */
  verb: string;
  /** Where it was made and what can be done with it, where no code defines it. */
  made: string;
  facts: readonly (readonly [string, ReactNode])[];
  json?: { label: string; value: unknown } | undefined;
}): ReactNode {
  const { entity, origin, verb, made, facts, json } = props;
  return (
    <Section title="Definition" actions={<Link href={ledgerHref(entity, "history")}>History</Link>}>
      <div className="card stack">
        <p className="soft">
          {origin === "code"
            ? "Defined in the project's code: change it there and deploy. You can pause, resume " +
              `and ${verb} it here.`
            : made}
        </p>
        <Facts facts={facts} />
        {json !== undefined && <Json {...json} />}
      </div>
    </Section>
  );
}

/** Says that something acts no more by itself, and why. */
export function Standstill(props: {
  noun: string;
  state: string;
  reason: string | null;
  pausedAt?: string | null;
}): ReactNode {
  const { noun, state, reason, pausedAt } = props;
  if (state === "DELETED") {
    return (
      <Notice tone="wait">
        <p>This {noun} is deleted. Its history stays readable.</p>
      </Notice>
    );
  }
  if (state !== "PAUSED") return null;
  return (
    <Notice tone="warn">
      <p>
        Paused
        {pausedAt !== undefined && (
          <>
            {" "}
            <Time at={pausedAt} />
          </>
        )}
        {reason === null ? "." : `: ${visibleText(reason)}`}
      </p>
    </Notice>
  );
}
