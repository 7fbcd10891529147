import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function ConflictList(): ReactNode {
  return <Page title="Conflicts">Not there yet.</Page>;
}
