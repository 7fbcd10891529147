import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function ScheduleList(): ReactNode {
  return <Page title="Schedules">Not there yet.</Page>;
}
