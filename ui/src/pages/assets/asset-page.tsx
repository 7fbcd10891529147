import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function AssetPage(): ReactNode {
  return <Page title="Asset Page">Not there yet.</Page>;
}
