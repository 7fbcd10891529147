import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { countText } from "../../parts/time-text.ts";
import { assetHref } from "./asset-links.ts";
import { summaryParts, summaryState } from "./partition-texts.ts";

/** Where the partitions of an asset stand: a bar, and the state that says most. */
export function SummaryBar({ assetKey }: { assetKey: string }): ReactNode {
  const { data, error } = useAnswer("summarizePartitions", { params: { asset_key: assetKey } });
  if (error !== null && data === undefined) return <span className="soft">{error.message}</span>;
  if (data === undefined) return <span className="soft">…</span>;
  const state = summaryState(data);
  if (state === undefined) return <span className="soft">no partitions yet</span>;
  const word = <StateWord assetKey={assetKey} state={state} />;
  if (data.total === 1) return word;
  return (
    <div className="assets-summary">
      <Progress parts={summaryParts(data)} total={data.total} unit="partitions" />
      <span className="assets-summary-word">
        {word}
        <span className="soft">{shareText(data.materialized, data.total)}</span>
      </span>
    </div>
  );
}

/** The state, which leads to what failed. */
function StateWord({ assetKey, state }: { assetKey: string; state: string }): ReactNode {
  const status = <Status state={state} />;
  if (state !== "FAILED" && state !== "MATERIALIZED_LAST_ATTEMPT_FAILED") return status;
  return <Link href={`${assetHref(assetKey)}?view=list&status=${state}`}>{status}</Link>;
}

function shareText(made: number, total: number): string {
  if (made === 0) return "";
  if (made === total) return "all";
  // A part is never shown as the whole, nor as nothing.
  const share = Math.min(99, Math.max(1, Math.round((made / total) * 100)));
  return `${share} % of ${countText(total)}`;
}
