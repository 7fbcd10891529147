import { type ReactNode, useEffect, useState } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { NextTimes } from "./next-times.tsx";
import { boundsOf, type Draft } from "./schedule-draft.ts";

/** How long typing rests before it is looked at. */
const REST_MS = 250;

/** When a schedule that is being written would act. */
export function PreviewOfTimes({ draft }: { draft: Draft }): ReactNode {
  const cron = useRested(draft.cron.trim());
  const timezone = useRested(draft.timezone.trim());
  const body = { cron, timezone, count: 5, ...boundsOf(draft) };
  const answer = useAnswer(
    "previewTimes",
    { body },
    { enabled: cron !== "" && timezone !== "", everyMs: 60_000 },
  );
  return (
    <div aria-live="polite">
      <p className="soft">It would act at:</p>
      {cron === "" || timezone === "" ? (
        <p>Give a cron expression and a time zone to see its times.</p>
      ) : (
        <Loaded answer={answer}>
          {({ items, timezone: zone }) => <NextTimes times={items} zone={zone} state="ACTIVE" />}
        </Loaded>
      )}
    </div>
  );
}

/** A text that follows another once that rests. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
}
