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
        <strong>No worker polls for {assets.join(", ")}.</strong> The work is ready, but no worker
        has polled for it in the last minute. Start <code>pawl worker</code> in a project that
        defines {assets.length === 1 ? "this asset" : "these assets"}.
      </p>
    </Notice>
  );
}
