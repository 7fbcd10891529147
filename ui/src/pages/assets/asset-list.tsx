import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function AssetList(): ReactNode {
  return <Page title="Assets">Not there yet.</Page>;
}
