import type { ReactNode } from "react";
import type { PartitionDocument } from "../../../../src/work/asset/api.ts";
import { lookOf } from "../../parts/status-look.ts";
import { Time } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import { STALE_WORDS } from "./partition-texts.ts";

/** What is known of a partition, in a few lines. */
export function PartitionDetails({ partition }: { partition: PartitionDocument }): ReactNode {
  const { stale_reason, last_materialization_at, last_attempt_at, last_attempt_outcome } =
    partition;
  const { last_attempt_error: error } = partition;
  return (
    <>
      {stale_reason !== null && stale_reason !== "NEVER_MATERIALIZED" && (
        <div>Stale: {STALE_WORDS[stale_reason]}</div>
      )}
      {last_materialization_at !== null && (
        <div>
          Materialized <Time at={last_materialization_at} />
        </div>
      )}
      {last_attempt_at !== null && (
        <div>
          Last attempt {lookOf(last_attempt_outcome ?? "").word} <Time at={last_attempt_at} />
          {error !== null && (
            <>
              : <span className="assets-tip-error">{visibleText(error.message)}</span>
            </>
          )}
        </div>
      )}
      {last_attempt_at === null && <div>Never tried</div>}
    </>
  );
}
