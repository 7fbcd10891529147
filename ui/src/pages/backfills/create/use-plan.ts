import { useEffect, useState } from "react";
import type { AnswerOf } from "../../../../../src/work/operations.ts";
import type { Refusal } from "../../../api/call.ts";
import { useAnswer } from "../../../api/use-answer.ts";
import type { CreateBody } from "./create-body.ts";

/** How long nothing changes before the plan is asked for. */
const SETTLED_MS = 250;

/** What would be made. */
export type Plan = AnswerOf<"previewBackfill">;

/** What is known of the plan for what is filled in. */
export type PlanState = {
  /** The newest plan there is, perhaps for what was filled in a moment ago. */
  plan: Plan | null;
  refusal: Refusal | null;
  /** Whether the plan is the one for what is filled in now. */
  isCurrent: boolean;
  again: () => Promise<unknown>;
};

/** Previews what is filled in, as soon as it rests. */
export function usePlan(body: CreateBody | null): PlanState {
  const text = body === null ? null : JSON.stringify(body);
  const settled = useSettled(text);
  const answer = useAnswer(
    "previewBackfill",
    { body: JSON.parse(settled ?? "{}") as CreateBody },
    { enabled: settled !== null, keepPrevious: true },
  );
  const isSettled = text !== null && settled === text;
  return {
    plan: text === null ? null : (answer.data ?? null),
    refusal: isSettled ? answer.error : null,
    isCurrent: isSettled && answer.data !== undefined && !answer.isPlaceholderData,
    again: answer.refetch,
  };
}

/** The value once it has not changed for a while; nothing, and the first value, at once. */
function useSettled(value: string | null): string | null {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), settled === null ? 0 : SETTLED_MS);
    return () => clearTimeout(timer);
  }, [value, settled]);
  return value === null ? null : settled;
}
