import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function SensorList(): ReactNode {
  return <Page title="Sensors">Not there yet.</Page>;
}
