import type { ReactNode } from "react";
import { relativeText } from "../../parts/time-text.ts";
import { useNow } from "../../parts/use-now.ts";
import { viewerZone, zonedText } from "./schedule-texts.ts";

/** A moment as the clocks of a zone show it, and those of whoever looks where they differ. */
export function ZonedTime(props: {
  at: string | null;
  zone: string;
  /** Whether to say how far it is from now. */
  isRelative?: boolean;
}): ReactNode {
  const { at, zone, isRelative = false } = props;
  const nowMs = useNow();
  if (at === null) return <span className="soft">–</span>;
  const there = zonedText(at, zone);
  const here = zonedText(at, viewerZone());
  return (
    <span className="schedules-time">
      {isRelative && (
        <time dateTime={at} title={at}>
          {relativeText(at, nowMs)}
        </time>
      )}
      <span className={isRelative ? "soft" : ""}>
        {there} {zone}
      </span>
      {here !== there && <span className="soft">{here} here</span>}
    </span>
  );
}
