import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function MovePage(): ReactNode {
  return <Page title="Move Page">Not there yet.</Page>;
}
