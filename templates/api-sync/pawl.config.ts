import { definePawl, rangeTooLarge, sourceUnavailable, sync, throttled } from "pawl";
import type { Payment } from "./api.ts";
import { countPayments, storePayments } from "./payments.ts";

const API_URL = process.env["API_URL"] ?? "http://127.0.0.1:7391";

/** What the API answers, or why it does not: each reason has its own remedy. */
async function ask<Answer>(path: string, signal: AbortSignal): Promise<Answer> {
  const response = await fetch(`${API_URL}${path}`, { signal }).catch((cause: unknown) => {
    signal.throwIfAborted();
    const hint = `Start it with \`npm run api\`, or say with API_URL where it is.`;
    throw sourceUnavailable(`${API_URL} cannot be reached. ${hint}`, { cause });
  });
  // Asked less often from now on, by all workers together.
  if (response.status === 429) {
    const seconds = Number(response.headers.get("retry-after") ?? 1);
    throw throttled("The API asks for a pause.", { retryAfterMs: seconds * 1_000 });
  }
  // Asked for less at once from now on.
  if (response.status === 413) {
    const { at_most } = (await response.json()) as { at_most: number };
    throw rangeTooLarge("The API does not answer for so many.", { suggestedSize: at_most });
  }
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
}

/** A copy of all payments, complete from the first one on, that follows the newest. */
export const payments = sync("payments", {
  description: "All payments of the API, as rows of a table",
  targets: [{ account: "main" }],
  from: 1,
  headEveryMs: 2_000,
  requestsPerSecond: 15,
  // History in segments of a thousand at least; four of them at once.
  segments: { minSize: 1_000 },
  head: async ({ signal }) => {
    const { number } = await ask<{ number: number }>("/payments/newest", signal);
    return number;
  },
  fetch: async ({ from, to }, { signal }) => {
    const path = `/payments?from=${from}&to=${to}`;
    const answer = await ask<{ payments: Payment[] }>(path, signal);
    // Somebody else may have taken over meanwhile.
    signal.throwIfAborted();
    storePayments(answer.payments);
    return { rows: answer.payments.length };
  },
  verify: async ({ from, to }) => {
    const missing = to - from + 1 - countPayments(from, to);
    return missing === 0 ? { ok: true } : { ok: false, reason: `${missing} are not stored.` };
  },
});

export default definePawl({ syncs: [payments] });
