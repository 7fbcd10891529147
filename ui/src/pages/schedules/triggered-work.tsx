import type { ReactNode } from "react";
import { Link } from "wouter";
import { Id, NoValue, RunLink } from "../../parts/facts.tsx";
import { Status } from "../../parts/status.tsx";

/** The run or the backfill that was asked for, and where it stands. */
export function TriggeredWork(props: {
  run_id: string | null;
  run_state: string | null;
  backfill_id: string | null;
  backfill_state: string | null;
}): ReactNode {
  const { run_id, run_state, backfill_id, backfill_state } = props;
  if (run_id !== null) {
    return (
      <span className="row">
        <RunLink runId={run_id} />
        {run_state !== null && <Status state={run_state} />}
      </span>
    );
  }
  if (backfill_id !== null) {
    return (
      <span className="row">
        <Link href={`/backfills/${encodeURIComponent(backfill_id)}`}>
          backfill <Id id={backfill_id} />
        </Link>
        {backfill_state !== null && <Status state={backfill_state} />}
      </span>
    );
  }
  return <NoValue />;
}
