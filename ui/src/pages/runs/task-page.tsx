import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function TaskPage(): ReactNode {
  return <Page title="Task Page">Not there yet.</Page>;
}
