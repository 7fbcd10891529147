import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Refusal } from "../api/call.ts";
import { Refused } from "./notice.tsx";

/** What is known so far of something that was asked for. */
export type Answer<Data> = Pick<
  UseQueryResult<Data, Refusal>,
  "data" | "error" | "isPending" | "refetch"
>;

/** What is shown of an answer: the wait for it, what kept it away, or the answer itself. */
export function Loaded<Data>(props: {
  answer: Answer<Data>;
  children: (answer: Data) => ReactNode;
}): ReactNode {
  const { data, error, refetch } = props.answer;
  const again = () => void refetch();
  if (data !== undefined) {
    return (
      <>
        {error !== null && <Refused refusal={error} again={again} />}
        {props.children(data)}
      </>
    );
  }
  if (error !== null) return <Refused refusal={error} again={again} />;
  return <Loading />;
}

/** Said while something is on its way. */
export function Loading(): ReactNode {
  return (
    <p className="loading" role="status">
      Loading…
    </p>
  );
}
