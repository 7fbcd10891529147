import type { Client } from "../../src/client/client.ts";

/** What the tasks of these assets are said to come to: the message of a failure, or null. */
export type Verdicts = {
  assets: readonly string[];
  verdict: (partitionKey: string, assetKey: string) => string | null;
  /** Lines that each task logs before it ends. */
  logs?: readonly string[];
  /** How many are taken at once. */
  slots?: number;
};

/** Takes the tasks that are ready and reports them; answers how many there were. */
export async function workOnce(client: Client, verdicts: Verdicts) {
  const { assets, verdict, logs = [], slots = 500 } = verdicts;
  const lease_id = crypto.randomUUID();
  const worker_id = "hand";
  const { groups } = await client.call("claim", {
    body: {
      worker_id,
      lease_id,
      slots,
      assets: [...assets],
      code_version: null,
      wait_ms: 100,
    },
  });
  const claimed = groups.flatMap(({ run_pos, asset_key, tasks }) =>
    tasks.map(({ task_key, attempt, partition_keys }) => {
      const message = partition_keys
        .map((key) => verdict(key, asset_key))
        .find((text) => text !== null);
      return { ref: { run_pos, task_key, attempt }, message };
    }),
  );
  if (claimed.length === 0) return 0;
  if (logs.length > 0) {
    const items = claimed.flatMap(({ ref }) =>
      logs.map((message) => ({ ...ref, message, fields: null })),
    );
    await client.call("log", { body: { items } });
  }
  const results = claimed.map(({ ref, message }) =>
    message === undefined
      ? { ...ref, outcome: "SUCCEEDED" as const }
      : {
          ...ref,
          outcome: "FAILED" as const,
          final: true,
          error: { class: "user", message },
        },
  );
  await client.call("report", {
    body: { worker_id, code_version: null, results, released_leases: [lease_id] },
  });
  return claimed.length;
}

/** Works until the backfill has ended, or has nothing ready any more. */
export async function workThrough(client: Client, backfillId: string, verdicts: Verdicts) {
  for (;;) {
    const params = { backfill_id: backfillId };
    const { finished_at, state } = await client.call("getBackfill", { params });
    if (finished_at !== null) return state;
    if ((await workOnce(client, verdicts)) === 0 && state !== "RUNNING" && state !== "PENDING") {
      return state;
    }
  }
}
