import type { ReactNode } from "react";
import { useLocation } from "wouter";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { countText } from "../../parts/time-text.ts";
import { RepairSync, VerifySync } from "./range-actions.tsx";
import { RetuneSync } from "./retune-sync.tsx";
import { expected, type Sync, syncLabel, whyNotSync } from "./sync-texts.ts";

/** What can be done with a sync as a whole. */
export function SyncActions({ sync }: { sync: Sync }): ReactNode {
  return (
    <>
      {sync.state === "PAUSED" ? <ResumeSync sync={sync} /> : <PauseSync sync={sync} />}
      <RetuneSync sync={sync} />
      <VerifySync sync={sync} />
      <RepairSync sync={sync} />
      <RemoveSync sync={sync} />
    </>
  );
}

function PauseSync({ sync }: { sync: Sync }): ReactNode {
  const { sync_id, state_version, segments_running: running } = sync;
  return (
    <Action
      label="Pause"
      asksReason
      consequence={
        <p>
          {running === 0
            ? "No segment is begun any more"
            : `The ${running === 1 ? "segment that runs stops" : `${countText(running)} segments that run stop`}`}
          , and the head is not polled. Segments keep their progress and go on from there when the
          sync is resumed.
        </p>
      }
      unavailable={whyNotSync(sync, "pause")}
      version={state_version}
      run={(reason, version) =>
        call("pauseSync", {
          params: { sync: sync_id },
          body: { ...expected(version), ...(reason === "" ? {} : { reason }) },
        })
      }
    />
  );
}

function ResumeSync({ sync }: { sync: Sync }): ReactNode {
  const { sync_id, state_version, max_parallel, segments_total, segments_complete } = sync;
  const left = segments_total - segments_complete;
  return (
    <Action
      label="Resume"
      tone="primary"
      asksReason
      unavailable={whyNotSync(sync, "resume")}
      consequence={
        <p>
          The sync goes on where it stopped: {countText(left)} segments are left
          {max_parallel === null ? "" : `, up to ${countText(max_parallel)} of them at once`}.
        </p>
      }
      version={state_version}
      run={(reason, version) =>
        call("resumeSync", {
          params: { sync: sync_id },
          body: { ...expected(version), ...(reason === "" ? {} : { reason }) },
        })
      }
    />
  );
}

function RemoveSync({ sync }: { sync: Sync }): ReactNode {
  const [, go] = useLocation();
  return (
    <Action
      label="Remove"
      tone="danger"
      consequence={
        <p>
          {syncLabel(sync)} is no longer synced: what runs of it stops, and it leaves the list. What
          it stored stays where it is, and so does this page. The same target can be added again,
          and then begins anew.
        </p>
      }
      unavailable={whyNotSync(sync, "remove")}
      version={sync.state_version}
      run={(_, version) =>
        call("removeSync", { params: { sync: sync.sync_id }, query: expected(version) })
      }
      onDone={() => go("/syncs")}
    />
  );
}
