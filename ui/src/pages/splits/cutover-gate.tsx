import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { call, type Refusal } from "../../api/call.ts";
import { Refused } from "../../parts/notice.tsx";
import { durationText } from "../../parts/time-text.ts";
import { CheckList } from "./check-list.tsx";
import type { Split } from "./split-texts.ts";

/** How often what stands in the way is looked at again while somebody decides. */
const EVERY_MS = 1_500;

/** What a cutover would meet now, and what writers will see of it. */
export function CutoverGate({ split }: { split: Split }): ReactNode {
  const { id, source, target, fence_wait_ms, fence_hold_ms } = split;
  const gate = useQuery<AnswerOf<"cutOverSplit">, Refusal>({
    queryKey: ["cutOverSplit", id, "dry run"],
    queryFn: () => call("cutOverSplit", { params: { split: id }, body: { dry_run: true } }),
    refetchInterval: EVERY_MS,
  });
  const { data } = gate;
  const checks = data?.checks ?? [];
  return (
    <>
      <section className="splits-gate" aria-label="Before the cutover">
        <h3>{data?.ready === false ? "Something stands in the way" : "What it would meet now"}</h3>
        {data === undefined && gate.error === null && <p className="soft">Looking…</p>}
        {gate.error !== null && <Refused refusal={gate.error} />}
        {checks.length > 0 && <CheckList label="Before the cutover" checks={checks} />}
      </section>
      <section className="splits-gate" aria-label="What writers will see">
        <h3>What writers will see</h3>
        <ul className="splits-points">
          <li>
            Writes through the router wait, as a rule for some milliseconds. They are held for{" "}
            <strong>{durationText(fence_hold_ms)} at most</strong>, after up to{" "}
            {durationText(fence_wait_ms)} for those under way.
          </li>
          <li>
            If it cannot be done by then, they go on at {source} as before, and nothing has changed.
          </li>
          <li>Reads go on. What is waiting is written to {target}: nothing is lost or doubled.</li>
          <li>
            Afterwards {target} serves and {source} is kept up to date: there is a way back until
            you complete it.
          </li>
        </ul>
      </section>
    </>
  );
}
