import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function BackfillList(): ReactNode {
  return <Page title="Backfills">Not there yet.</Page>;
}
