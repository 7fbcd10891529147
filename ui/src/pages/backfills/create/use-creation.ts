import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { useLocation } from "wouter";
import type { AnswerOf } from "../../../../../src/work/operations.ts";
import { call, type Refusal } from "../../../api/call.ts";
import { randomKey } from "../../../api/random-key.ts";
import { announce } from "../../../parts/announce.ts";
import type { CreateBody } from "./create-body.ts";
import type { PlanState } from "./use-plan.ts";

/** Making what was previewed. */
export type Creation = {
  create: () => void;
  isPending: boolean;
  /** Why it was refused; null once what is filled in has changed. */
  refusal: Refusal | null;
  /** Whether it is not known what came of it: then the same request is sent once more. */
  isUnanswered: boolean;
};

/**
 * Makes exactly what the preview shows, and goes there. The same plan has the same request id
 * however often it is sent, so a second click, or a try after a lost answer, makes nothing more.
 */
export function useCreation(
  body: CreateBody | null,
  { plan, isCurrent, again }: PlanState,
): Creation {
  const [, go] = useLocation();
  const client = useQueryClient();
  const plan_hash = plan?.plan_hash;
  const wish = JSON.stringify({ ...body, plan_hash });
  const request = useRef({ wish: "", id: "", isSent: false });
  const mutation = useMutation<AnswerOf<"createBackfill">, Refusal, string>({
    mutationFn: (sent) => {
      const { id } = request.current;
      const wished = JSON.parse(sent) as CreateBody;
      return call("createBackfill", {
        body: { ...wished, client_request_id: id },
        idempotencyKey: id,
      });
    },
    onSuccess: ({ message, backfill_id }) => {
      announce(message);
      go(`/backfills/${encodeURIComponent(backfill_id)}`);
    },
    // Another plan, or another backfill in the way: what is so now has to be seen first.
    onError: () => again(),
    onSettled: () => {
      request.current.isSent = false;
      return client.invalidateQueries({ queryKey: ["listBackfills"] });
    },
  });
  const isRefused = mutation.error !== null && isAbout(mutation.variables, body);
  const isUnanswered = isRefused && (mutation.error.status === 0 || mutation.error.status >= 500);
  const send = (asked: string): void => {
    // Two clicks may come before the first is seen to be on its way.
    if (request.current.isSent || mutation.isSuccess) return;
    const { wish: before, id } = request.current;
    request.current = {
      wish: asked,
      id: before === asked ? id : randomKey(),
      isSent: true,
    };
    mutation.mutate(asked);
  };
  return {
    create: () => {
      if (isUnanswered) send(request.current.wish);
      else if (isCurrent) send(wish);
    },
    isPending: mutation.isPending || mutation.isSuccess,
    refusal: isRefused ? mutation.error : null,
    isUnanswered,
  };
}

/** Whether what was sent is what is filled in now, whatever the plan for it is meanwhile. */
function isAbout(sent: string | undefined, body: CreateBody | null): boolean {
  if (sent === undefined) return false;
  const { plan_hash: _, ...asked } = JSON.parse(sent) as CreateBody;
  return JSON.stringify(asked) === JSON.stringify(body);
}
