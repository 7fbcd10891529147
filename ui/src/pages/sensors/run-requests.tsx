import type { ReactNode } from "react";
import { Link } from "wouter";
import { Id } from "../../parts/facts.tsx";
import { Status } from "../../parts/status.tsx";
import { countText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";
import type { RunRequest } from "./sensor-texts.ts";

const OUTCOMES: Readonly<Record<RunRequest["outcome"], string>> = {
  created: "new",
  existing: "was there already",
  conflict: "its key stands for another run",
  refused: "refused",
  void: "without effect",
};

/** The runs that an evaluation asked for, what became of the requests, and where they stand. */
export function RunRequests(props: {
  requests: readonly RunRequest[];
  /** Most that are shown. */
  most: number;
}): ReactNode {
  const { requests, most } = props;
  if (requests.length === 0) return <span className="soft">nothing</span>;
  return (
    <ul className="sensors-runs">
      {requests.slice(0, most).map((request) => (
        <li key={request.run_key} className="row">
          {/* A dry run names runs that are not there. */}
          {request.run_id === null || request.run_state === null ? (
            <code>{visibleText(request.run_key)}</code>
          ) : (
            <Link href={`/runs/${encodeURIComponent(request.run_id)}`}>
              <Id id={request.run_id} />
            </Link>
          )}
          {request.run_state !== null && <Status state={request.run_state} />}
          <span className="soft">
            {request.asset_selection.join(", ")}
            {request.partition_selection === null
              ? ""
              : ` ${visibleText(request.partition_selection.slice(0, 3).join(", "))}`}
            {`, ${OUTCOMES[request.outcome]}`}
          </span>
          {request.error !== null && (
            <span className="sensors-error">{visibleText(request.error.message)}</span>
          )}
        </li>
      ))}
      {requests.length > most && (
        <li className="soft">and {countText(requests.length - most)} more</li>
      )}
    </ul>
  );
}
