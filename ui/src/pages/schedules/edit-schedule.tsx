import { type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import { call, Refusal } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty, Notice } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { definitionOf, type Draft, draftOf } from "./schedule-draft.ts";
import { ScheduleForm } from "./schedule-form.tsx";
import type { Schedule } from "./schedule-texts.ts";
import "./schedules.css";

const CONSEQUENCE =
  "Past ticks stay as they are; the change applies from the next tick on. " +
  "Active runs continue.";

/** Changes a schedule that the API made. */
export function EditSchedule(): ReactNode {
  const schedule_id = useAddressName();
  const answer = useAnswer("getSchedule", { params: { schedule_id } });
  const name = answer.data?.name ?? "a schedule";
  const href = `/schedules/${encodeURIComponent(schedule_id)}`;
  return (
    <Page
      title={`Edit ${name}`}
      crumbs={[
        { text: "Schedules", href: "/schedules" },
        { text: name, href },
      ]}
    >
      <Loaded answer={answer}>{(schedule) => <Editable schedule={schedule} href={href} />}</Loaded>
    </Page>
  );
}

function Editable({ schedule, href }: { schedule: Schedule; href: string }): ReactNode {
  const [, go] = useLocation();
  // What is edited is what was there when the form opened, and so is its version.
  const [seen] = useState(schedule);
  const [version, setVersion] = useState(schedule.state_version);
  const save = async (draft: Draft) => {
    try {
      return await call("updateSchedule", {
        params: { schedule_id: schedule.schedule_id },
        body: { ...definitionOf(draft, seen), expected_state_version: version },
      });
    } catch (error) {
      // Whoever saves once more has been told what it is that they save over.
      const isOutdated = error instanceof Refusal && error.code === "STATE_VERSION_MISMATCH";
      if (isOutdated) setVersion(Number(error.details["state_version"] ?? version));
      throw error;
    }
  };
  if (schedule.origin === "code" || schedule.state === "DELETED") {
    return (
      <Empty
        title={
          schedule.origin === "code"
            ? "The project's code defines this schedule."
            : "This schedule is deleted."
        }
      >
        <p>
          {schedule.origin === "code" && "Change it there and deploy. "}
          <Link href={href}>Back to {schedule.name}</Link>
        </p>
      </Empty>
    );
  }
  return (
    <ScheduleForm
      isNew={false}
      start={draftOf(seen)}
      label="Save"
      consequence={
        <>
          {version !== seen.state_version && (
            <Notice tone="warn">
              <p>
                Your changes are still here. <Link href={href}>Discard them and review</Link>, or
                save again to overwrite what somebody else has changed.
              </p>
            </Notice>
          )}
          <p>{CONSEQUENCE}</p>
        </>
      }
      save={save}
      onSaved={() => go(href)}
    />
  );
}
