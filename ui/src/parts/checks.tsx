import type { ReactNode } from "react";
import type { CheckDocument, CheckStatus } from "../../../src/work/asset/checks.ts";
import { Metadata } from "./metadata.tsx";
import { Status } from "./status.tsx";
import { visibleText } from "./visible-text.ts";

/** What the checks of a partition came to, as a sign with its word; nothing where there were none. */
export function ChecksBadge({ status }: { status: CheckStatus | null }): ReactNode {
  return status === null ? null : <Status state={`CHECKS_${status}`} />;
}

/** What a check says of what it found, in a sentence; empty when it says nothing. */
export function checkSentence({ message, error }: CheckDocument): string {
  return visibleText(message ?? error?.message ?? "");
}

function statusOf({ passed, severity }: CheckDocument): CheckStatus {
  if (passed) return "PASSED";
  return severity === "warn" ? "WARNED" : "FAILED";
}

/** Checks under each other, each with what it found. */
export function CheckList({ checks }: { checks: readonly CheckDocument[] }): ReactNode {
  return (
    <ul className="checks">
      {checks.map((check, at) => (
        <li key={`${check.name} ${at}`}>
          <ChecksBadge status={statusOf(check)} /> <strong>{check.name}</strong>{" "}
          {checkSentence(check)}
          {check.blocking && !check.passed && (
            <span className="soft"> What is made from it was held back in this run.</span>
          )}
          {check.metadata !== null && (
            <Metadata value={check.metadata} label={`Metadata of ${check.name}`} />
          )}
        </li>
      ))}
    </ul>
  );
}
