import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Notice } from "../../parts/notice.tsx";

/** How often to look whether a worker came: that is no event. */
const EVERY_MS = 5_000;

/** Says why nothing begins, where no worker asks for what is ready. */
export function LacksWorker({ runId }: { runId: string }): ReactNode {
  const query = { status: "READY", limit: 200 };
  const tasks = useAnswer(
    "listTasks",
    { params: { run_id: runId }, query },
    { everyMs: EVERY_MS, keepPrevious: true },
  );
  const lacking = (tasks.data?.items ?? []).filter(({ lacks_worker }) => lacks_worker);
  if (lacking.length === 0) return null;
  const assets = [...new Set(lacking.map(({ asset_key }) => asset_key))];
  return <LacksWorkerOf assets={assets} />;
}

/** The same for assets that are known to lack one. */
export function LacksWorkerOf({ assets }: { assets: readonly string[] }): ReactNode {
  return (
    <Notice tone="warn">
      <p>
        <strong>No worker asks for {assets.join(", ")}.</strong> The work is ready, but no worker of
        this server has asked for it within the last minute. Start one in a project that has the
        code, with <code>pawl worker</code>; if one runs, look whether its project defines{" "}
        {assets.length === 1 ? "this asset" : "these assets"}.
      </p>
    </Notice>
  );
}
