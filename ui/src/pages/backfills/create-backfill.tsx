import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function CreateBackfill(): ReactNode {
  return <Page title="Create Backfill">Not there yet.</Page>;
}
