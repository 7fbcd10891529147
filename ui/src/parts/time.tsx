import type { ReactNode } from "react";
import { NoValue } from "./facts.tsx";
import { durationText, momentText, relativeText } from "./time-text.ts";
import { useNow } from "./use-now.ts";

/** When something happened or will: how far that is from now, with the moment itself as its title. */
export function Time({ at }: { at: string | null }): ReactNode {
  const now = useNow();
  if (at === null) return <NoValue />;
  return (
    <time dateTime={at} title={`${momentText(at)} (${at})`}>
      {relativeText(at, now)}
    </time>
  );
}

/** A moment to the second, for time lines and logs. */
export function Moment({ at }: { at: string | null }): ReactNode {
  if (at === null) return <NoValue />;
  return (
    <time dateTime={at} title={at} className="mono">
      {momentText(at)}
    </time>
  );
}

/** How long something took, or has been going on, without the time that it stood still. */
export function Lasted(props: {
  from: string | null;
  to: string | null;
  stoodMs?: number;
}): ReactNode {
  const { from, to, stoodMs = 0 } = props;
  const now = useNow();
  if (from === null) return <NoValue />;
  const end = to === null ? now : Date.parse(to);
  return <>{durationText(end - Date.parse(from) - stoodMs)}</>;
}
