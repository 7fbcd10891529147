import type { ReactNode } from "react";
import { Status } from "../../parts/status.tsx";
import { countText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { CheckList } from "./check-list.tsx";
import { isBusy, type Split } from "./split-texts.ts";

/** Whether both sides were found equal, and whether their schemas fit together. */
export function SplitProof({ split }: { split: Split }): ReactNode {
  const { verification, checks, source, target } = split;
  return (
    <div className="card stack">
      {verification === null ? (
        <p className="soft">
          The copy is compared with {source}, range by range, once it is complete. A cutover needs
          it.
        </p>
      ) : (
        <p>
          <Verdict verification={verification} /> {countText(verification.rows)} rows in{" "}
          {countText(verification.ranges)} ranges{" "}
          {verification.ok ? "are equal on both sides" : "were compared"}.
          {verification.note !== null && <> {visibleText(verification.note)}</>}
        </p>
      )}
      <h3>
        Schemas of {source} and {target}
      </h3>
      {checks === null ? (
        <p className="soft">{isBusy(split) ? "Comparing…" : "Not compared yet."}</p>
      ) : (
        <CheckList label="Checks of both schemas" checks={checks} />
      )}
    </div>
  );
}

function Verdict(props: { verification: NonNullable<Split["verification"]> }): ReactNode {
  const { ok, finished } = props.verification;
  if (!ok) return <Status state="FAILED">differs</Status>;
  return finished ? (
    <Status state="SUCCEEDED">all equal</Status>
  ) : (
    <Status state="RUNNING">equal so far</Status>
  );
}
