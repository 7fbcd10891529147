import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function MoveList(): ReactNode {
  return <Page title="Moves">Not there yet.</Page>;
}
