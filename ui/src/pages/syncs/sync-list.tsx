import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function SyncList(): ReactNode {
  return <Page title="Syncs">Not there yet.</Page>;
}
