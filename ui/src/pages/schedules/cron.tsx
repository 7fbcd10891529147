import type { ReactNode } from "react";
import { cronText } from "./cron-text.ts";

/** A cron expression in words where that is simple, and as it stands. */
export function Cron({ cron }: { cron: string }): ReactNode {
  const text = cronText(cron);
  return (
    <span className="schedules-time">
      {text !== null && <span>{text}</span>}
      <code className="soft">{cron}</code>
    </span>
  );
}
