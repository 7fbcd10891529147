import type { ReactNode } from "react";
import { useLocation } from "wouter";
import { call } from "../../api/call.ts";
import { Page } from "../../parts/page.tsx";
import { useAddressQuery } from "../../parts/use-address.ts";
import { useOnceKey } from "../../parts/use-once-key.ts";
import { definitionOf, newDraft } from "./schedule-draft.ts";
import { ScheduleForm } from "./schedule-form.tsx";
import { viewerZone } from "./zoned-text.ts";
import "./schedules.css";

/** Makes a schedule; `asset` in the address chooses assets beforehand. */
export function CreateSchedule(): ReactNode {
  const search = useAddressQuery();
  const [, go] = useLocation();
  const keyOf = useOnceKey();
  return (
    <Page title="New schedule" crumbs={[{ text: "Schedules", href: "/schedules" }]}>
      <ScheduleForm
        isNew
        start={newDraft(viewerZone(), search.getAll("asset"))}
        label="Create schedule"
        consequence="It starts with its next tick; past ticks are not triggered."
        save={async (draft) => {
          const body = { name: draft.name.trim(), ...definitionOf(draft, null) };
          return call("createSchedule", { body, idempotencyKey: keyOf(body) });
        }}
        onSaved={(id) => go(`/schedules/${encodeURIComponent(id)}`)}
      />
    </Page>
  );
}
