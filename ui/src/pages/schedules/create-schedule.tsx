import { type ReactNode, useRef } from "react";
import { useLocation, useSearchParams } from "wouter";
import { call } from "../../api/call.ts";
import { Page } from "../../parts/page.tsx";
import { definitionOf, newDraft } from "./schedule-draft.ts";
import { ScheduleForm } from "./schedule-form.tsx";
import { viewerZone } from "./schedule-texts.ts";
import "./schedules.css";

/** Makes a schedule; `asset` in the address chooses assets beforehand. */
export function CreateSchedule(): ReactNode {
  const [search] = useSearchParams();
  const [, go] = useLocation();
  // The same wish goes under the same key, so that a lost answer does not make it twice.
  const last = useRef({ text: "", key: "" });
  return (
    <Page title="Create a schedule" crumbs={[{ text: "Schedules", href: "/schedules" }]}>
      <ScheduleForm
        isNew
        start={newDraft(viewerZone(), search.getAll("asset"))}
        label="Create the schedule"
        consequence="It acts from its next time on, and never for the past."
        save={async (draft) => {
          const body = { name: draft.name.trim(), ...definitionOf(draft, null) };
          const text = JSON.stringify(body);
          if (last.current.text !== text) last.current = { text, key: crypto.randomUUID() };
          return call("createSchedule", { body, idempotencyKey: last.current.key });
        }}
        onSaved={(id) => go(`/schedules/${encodeURIComponent(id)}`)}
      />
    </Page>
  );
}
