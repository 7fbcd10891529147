import type { ReactNode } from "react";
import type { WorkDocument } from "../../../../src/work/work-api.ts";
import { Progress } from "../../parts/progress.tsx";
import { countText } from "../../parts/time-text.ts";

/** How far some work is; in words only while nobody knows how much there is. */
export function WorkProgress({ work }: { work: WorkDocument }): ReactNode {
  const { done, failed, total, unit } = work.progress;
  if (total === null) return <>{`${countText(done)} ${unit}`}</>;
  const parts = [
    { state: "SUCCEEDED", count: done },
    { state: "FAILED", count: failed },
  ];
  return <Progress parts={parts} total={total} unit={unit} />;
}
