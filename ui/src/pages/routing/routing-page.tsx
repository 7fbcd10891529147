import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function RoutingPage(): ReactNode {
  return <Page title="Routing">Not there yet.</Page>;
}
