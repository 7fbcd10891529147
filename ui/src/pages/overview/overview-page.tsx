import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function OverviewPage(): ReactNode {
  return <Page title="Overview">Not there yet.</Page>;
}
