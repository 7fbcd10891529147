import type { ReactNode } from "react";
import { pairsText } from "../../../../src/kernel/keyspace/pairs-text.ts";
import { Progress } from "../../parts/progress.tsx";
import { lookOf } from "../../parts/status-look.ts";
import { countText, rateText } from "../../parts/time-text.ts";
import { Lasted, Time } from "../../parts/time.tsx";
import { type Backfill, pairsIn, partitionParts, percentText } from "./backfill-texts.ts";

/** How far a backfill is, how fast it goes, and when it will be done. */
export function BackfillProgress({ backfill }: { backfill: Backfill }): ReactNode {
  const { partitions_total, rate_per_second: rate, eta_at, started_at, finished_at } = backfill;
  const { paused_at, paused_ms } = backfill;
  const parts = partitionParts(backfill);
  const mayPlan = backfill.state === "PENDING" || backfill.state === "RUNNING";
  const isWaiting = mayPlan && !backfill.window_open;
  const opensAt = isWaiting ? backfill.window_changes_at : null;
  return (
    <div className="card stack backfills-far">
      <div className="backfills-numbers">
        <div>
          <span className="backfills-number">{percentText(backfill)}</span>
          <span className="soft">done of {pairsText(pairsIn(backfill))}</span>
        </div>
        {rate !== null && (
          <div>
            <span className="backfills-number">{rateText(rate)}</span>
            <span className="soft">a second</span>
          </div>
        )}
        {eta_at !== null && (
          <div>
            <span className="backfills-number">
              <Time at={eta_at} />
            </span>
            <span className="soft">ETA</span>
          </div>
        )}
        {opensAt !== null && (
          <div>
            <span className="backfills-number">
              <Time at={opensAt} />
            </span>
            <span className="soft">{started_at === null ? "starts" : "window opens"}</span>
          </div>
        )}
        {started_at !== null && (
          <div>
            <span className="backfills-number">
              <Lasted from={started_at} to={finished_at ?? paused_at} stoodMs={paused_ms} />
            </span>
            <span className="soft">{finished_at === null ? "elapsed" : "total"}</span>
          </div>
        )}
      </div>
      <Progress parts={parts.slice(0, 5)} total={partitions_total} unit="partitions" />
      <ul className="backfills-counts" aria-label="Partitions by state">
        {parts
          .filter(({ count }) => count > 0)
          .map(({ state, count }) => (
            <li key={state} className={`tone-${lookOf(state).tone}`}>
              <span aria-hidden="true" className="backfills-sign">
                {lookOf(state).sign}
              </span>{" "}
              <strong>{countText(count)}</strong> {lookOf(state).word}
            </li>
          ))}
        {backfill.partitions_skipped > 0 && (
          <li className="soft">{countText(backfill.partitions_skipped)} of them skipped</li>
        )}
      </ul>
    </div>
  );
}
