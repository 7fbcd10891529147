import type { ReactNode } from "react";
import { RunLink } from "../../parts/facts.tsx";
import { Status } from "../../parts/status.tsx";
import { countText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";
import type { RunRequest } from "./sensor-texts.ts";

const OUTCOMES: Readonly<Record<RunRequest["outcome"], string>> = {
  created: "new",
  existing: "existed already",
  conflict: "run key conflict",
  refused: "refused",
  void: "no effect",
};

/** The runs that an evaluation asked for, what became of the requests, and where they stand. */
export function RunRequests(props: {
  requests: readonly RunRequest[];
  /** Most that are shown. */
  most: number;
}): ReactNode {
  const { requests, most } = props;
  if (requests.length === 0) return <span className="soft">none</span>;
  return (
    <ul className="sensors-runs">
      {requests.slice(0, most).map((request) => (
        <li key={request.run_key} className="row">
          {/* A dry run names runs that are not there. */}
          {request.run_id === null || request.run_state === null ? (
            <code>{visibleText(request.run_key)}</code>
          ) : (
            <RunLink runId={request.run_id} />
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
