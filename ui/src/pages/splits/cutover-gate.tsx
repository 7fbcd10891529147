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
        <h3>{data?.ready === false ? "Not ready" : "Ready to cut over"}</h3>
        {data === undefined && gate.error === null && <p className="soft">Checking…</p>}
        {gate.error !== null && <Refused refusal={gate.error} />}
        {checks.length > 0 && <CheckList label="Before the cutover" checks={checks} />}
      </section>
      <section className="splits-gate" aria-label="What writers will see">
        <h3>What writers will see</h3>
        <ul className="splits-points">
          <li>
            Writes through the router wait, usually for some milliseconds, and{" "}
            <strong>{durationText(fence_hold_ms)} at most</strong>, after up to{" "}
            {durationText(fence_wait_ms)} for open writes.
          </li>
          <li>If that is not enough, writes continue on {source} and nothing has changed.</li>
          <li>Reads continue. Waiting writes go to {target}: none is lost or repeated.</li>
          <li>
            Afterwards {target} serves the tenants and {source} is kept in sync: you can roll back
            until you complete the split.
          </li>
        </ul>
      </section>
    </>
  );
}
