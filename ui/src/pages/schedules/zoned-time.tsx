import { memo, type ReactNode } from "react";
import { NoValue } from "../../parts/facts.tsx";
import { Time } from "../../parts/time.tsx";
import { viewerZone, zonedText } from "./zoned-text.ts";

/** A moment as the clocks of a zone show it, and those of whoever looks where they differ. */
export const ZonedTime = memo(function ZonedTime(props: {
  at: string | null;
  zone: string;
  /** Whether to say how far it is from now. */
  isRelative?: boolean;
}): ReactNode {
  const { at, zone, isRelative = false } = props;
  if (at === null) return <NoValue />;
  const there = zonedText(at, zone);
  const here = zonedText(at, viewerZone());
  return (
    <span className="schedules-time">
      {isRelative && <Time at={at} />}
      <span className={isRelative ? "soft" : ""}>
        {there} {zone}
      </span>
      {here !== there && <span className="soft">{here} local time</span>}
    </span>
  );
});
