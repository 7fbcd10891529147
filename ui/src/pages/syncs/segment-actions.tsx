import { type ReactNode, useState } from "react";
import { whyNot } from "../../../../src/work/command.ts";
import { SEGMENT_RULES } from "../../../../src/work/sync/rules.ts";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { expected, rangeText, type Segment } from "./sync-texts.ts";

type Named = Pick<Segment, "sync_id" | "segment_index" | "from_block" | "to_block" | "status">;

/** A segment, and the version of its sync by which it is decided on. */
type SegmentProps = { segment: Named; syncVersion: number };

function paramsOf({ sync_id, segment_index }: Named) {
  return { sync: sync_id, segment_index };
}

function whyNotSegment({ status }: Named, command: keyof typeof SEGMENT_RULES): string | null {
  // One that was abandoned is quarantined as well: it is shown apart because of its cause.
  return whyNot(SEGMENT_RULES[command], status === "ABANDONED" ? "QUARANTINED" : status, null);
}

/** Has a quarantined segment tried once more. */
export function RetrySegment({ segment, syncVersion }: SegmentProps): ReactNode {
  return (
    <Action
      label={`Retry segment ${segment.segment_index}`}
      asksReason
      consequence={
        <p>
          {capital(rangeText(segment))} will be fetched again from the beginning, as soon as a
          worker is free. What was stored of them stays until then. When that fails again as often
          as the sync allows, they are quarantined again.
        </p>
      }
      unavailable={whyNotSegment(segment, "retry")}
      version={syncVersion}
      run={(reason, version) =>
        call("retrySegment", {
          params: paramsOf(segment),
          body: { ...expected(version), ...(reason === "" ? {} : { reason }) },
        })
      }
    />
  );
}

/** Lets a quarantined segment stay unfetched; whoever does so has to say why. */
export function ExcludeSegment({ segment, syncVersion }: SegmentProps): ReactNode {
  const [reason, setReason] = useState("");
  return (
    <Action
      label={`Exclude segment ${segment.segment_index}`}
      tone="danger"
      consequence={
        <p>
          {capital(rangeText(segment))} will stay unfetched, and the sync goes on as if they were
          complete: whoever reads what it stores will not find them there. Your name and the reason
          are kept with the segment. A repair of these blocks takes it back.
        </p>
      }
      unavailable={whyNotSegment(segment, "exclude")}
      version={syncVersion}
      run={(_, version) =>
        call("excludeSegment", {
          params: paramsOf(segment),
          body: { ...expected(version), reason: reason.trim() },
        })
      }
    >
      <Field label="Why they may stay unfetched">
        {(control) => (
          <input
            {...control}
            value={reason}
            required
            maxLength={1_000}
            onChange={(event) => setReason(event.target.value)}
          />
        )}
      </Field>
    </Action>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
