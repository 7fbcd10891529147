import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function SchedulePage(): ReactNode {
  return <Page title="Schedule Page">Not there yet.</Page>;
}
