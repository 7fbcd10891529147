import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function SplitList(): ReactNode {
  return <Page title="Splits">Not there yet.</Page>;
}
