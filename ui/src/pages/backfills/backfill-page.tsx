import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function BackfillPage(): ReactNode {
  return <Page title="Backfill Page">Not there yet.</Page>;
}
