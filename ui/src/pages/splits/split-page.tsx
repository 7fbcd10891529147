import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function SplitPage(): ReactNode {
  return <Page title="Split Page">Not there yet.</Page>;
}
