import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function LedgerPage(): ReactNode {
  return <Page title="Ledger">Not there yet.</Page>;
}
