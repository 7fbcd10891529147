import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import type { Refusal } from "../../api/call.ts";
import { Facts } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { counted, countText, rateText } from "../../parts/time-text.ts";

/** All syncs together, in numbers; nothing while there are none. */
export function SyncTotals(props: {
  overview: UseQueryResult<AnswerOf<"syncOverview">, Refusal>;
}): ReactNode {
  return (
    <Loaded answer={props.overview}>
      {(totals) => (totals.syncs === 0 ? null : <Totals totals={totals} />)}
    </Loaded>
  );
}

function Totals({ totals }: { totals: AnswerOf<"syncOverview"> }): ReactNode {
  const lag = totals.lag_blocks_max;
  const states = Object.entries(totals.syncs_by_status).filter(([, count]) => count > 0);
  return (
    <div className="card stack">
      <div className="row">
        {states.map(([state, count]) => (
          <Status key={state} state={state}>
            {countText(count)} {state.toLowerCase()}
          </Status>
        ))}
      </div>
      <Progress
        parts={[
          { state: "COMPLETE", count: totals.segments_complete },
          { state: "RUNNING", count: totals.segments_running },
          { state: "FAILED", count: totals.segments_failed },
          { state: "QUARANTINED", count: totals.segments_quarantined },
        ]}
        total={totals.segments_total}
        unit="segments"
      />
      <Facts
        facts={[
          ["Blocks", `${countText(totals.blocks_complete)} of ${countText(totals.blocks_total)}`],
          ["Rate", `${rateText(totals.rate_blocks_per_second)} blocks/s`],
          ["Largest lag", lag === null ? "not known yet" : counted(lag, "block")],
          ["Rows stored", countText(totals.rows_stored)],
          [
            "Segments",
            `${countText(totals.segments_complete)} of ${countText(totals.segments_total)}`,
          ],
          [
            "Set aside",
            totals.segments_quarantined === 0 ? null : countText(totals.segments_quarantined),
          ],
        ]}
      />
    </div>
  );
}
