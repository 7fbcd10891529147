import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function LineagePage(): ReactNode {
  return <Page title="Lineage Page">Not there yet.</Page>;
}
