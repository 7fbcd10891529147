import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function EntityPage(): ReactNode {
  return <Page title="Entity Page">Not there yet.</Page>;
}
