import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Status } from "../../parts/status.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText } from "../../parts/time-text.ts";
import { useAddressName, useAddressQuery } from "../../parts/use-address.ts";
import { LedgerButtons, WorkPage } from "../../parts/work-page.tsx";
import { SyncQuarantine } from "./quarantine.tsx";
import { SegmentDetails } from "./segment-details.tsx";
import { SegmentStrip } from "./segment-strip.tsx";
import { SegmentTable } from "./segment-table.tsx";
import { SyncActions } from "./sync-actions.tsx";
import { SyncFacts } from "./sync-facts.tsx";
import { SyncLag } from "./sync-lag.tsx";
import { isBusy, type Sync, syncHref, syncLabel } from "./sync-texts.ts";
import "./syncs.css";

/** How often segments are asked for while they go on: how far they are makes no events. */
const BUSY_MS = 1_000;

/** A sync: how far it is, its segments, what went wrong, and what can be done. */
export function SyncPage(): ReactNode {
  const params = { sync: useAddressName() };
  const answer = useAnswer("getSync", { params });
  const label = answer.data === undefined ? params.sync : syncLabel(answer.data);
  return (
    <WorkPage
      answer={answer}
      list={{ text: "Syncs", href: "/syncs" }}
      title={`Sync ${label}`}
      heading={<span className="sync-label">{label}</span>}
      state={({ status }) => <Status state={status} />}
      actions={(sync) => (
        <>
          <LedgerButtons entity={sync.sync_id} views={["events", "why"]} />
          <SyncActions sync={sync} />
        </>
      )}
    >
      {(sync) => <Shown sync={sync} />}
    </WorkPage>
  );
}

function Shown({ sync }: { sync: Sync }): ReactNode {
  const everyMs = isBusy(sync) ? BUSY_MS : undefined;
  const search = useAddressQuery();
  const view = search.get("view") ?? "";
  const segment = Number(search.get("segment") ?? Number.NaN);
  const open = Number.isSafeInteger(segment) && segment >= 0 ? segment : null;
  const href = syncHref(sync.sync_id);
  const aside = sync.segments_quarantined;
  return (
    <>
      <SyncFacts sync={sync} />
      <SegmentStrip sync={sync} open={open} />
      {open !== null && <SegmentDetails sync={sync} index={open} everyMs={everyMs} />}
      <Tabs
        label="Views of the sync"
        tabs={[
          { text: "Lag", href, isCurrent: view === "" },
          {
            text: `Segments (${countText(sync.segments_total)})`,
            href: `${href}?view=segments`,
            isCurrent: view === "segments",
          },
          {
            text: aside === 0 ? "Quarantine" : `Quarantine (${countText(aside)})`,
            href: `${href}?view=quarantine`,
            isCurrent: view === "quarantine",
          },
        ]}
      />
      {view === "" && <SyncLag sync={sync} />}
      {view === "segments" && <SegmentTable sync={sync} everyMs={everyMs} />}
      {view === "quarantine" && <SyncQuarantine syncId={sync.sync_id} />}
    </>
  );
}
