import type { ReactNode } from "react";
import { Page } from "../../parts/page.tsx";

/** To be written. */
export function SensorPage(): ReactNode {
  return <Page title="Sensor Page">Not there yet.</Page>;
}
