import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText } from "../../parts/time-text.ts";
import { useAddressQuery } from "../../parts/use-address.ts";
import { AddTarget } from "./add-target.tsx";
import { AllQuarantine } from "./quarantine.tsx";
import { SourceTable } from "./source-table.tsx";
import { SyncTable } from "./sync-table.tsx";
import { SyncTotals } from "./sync-totals.tsx";
import "./syncs.css";

/** All syncs, what they fetch from, and what was quarantined. */
export function SyncList(): ReactNode {
  const search = useAddressQuery();
  const view = search.get("view") ?? "";
  const overview = useAnswer("syncOverview", {});
  const aside = overview.data?.segments_quarantined ?? 0;
  return (
    <Page title="Syncs" actions={<AddTarget names={overview.data?.names ?? []} />}>
      <SyncTotals overview={overview} />
      <Tabs
        label="Views of syncs"
        tabs={[
          { text: "Targets", href: "/syncs", isCurrent: view === "" },
          { text: "Sources", href: "/syncs?view=sources", isCurrent: view === "sources" },
          {
            text: aside === 0 ? "Quarantine" : `Quarantine (${countText(aside)})`,
            href: "/syncs?view=quarantine",
            isCurrent: view === "quarantine",
          },
        ]}
      />
      {view === "sources" && <SourceTable />}
      {view === "quarantine" && <AllQuarantine />}
      {view === "" && <SyncTable names={overview.data?.names.map(({ name }) => name) ?? []} />}
    </Page>
  );
}
