import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function SyncPage(): ReactNode {
  return <Page title="Sync Page">Not there yet.</Page>;
}
