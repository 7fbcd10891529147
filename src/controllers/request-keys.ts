import { present } from "../core/assert.ts";
import { canonicalJson } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { BackfillRow } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Context } from "./decision.ts";

/** A request for backfills: its permanent key, and a fingerprint of all that it asks for. */
export type BackfillRequest = { request_key: string; request_fingerprint: string };

/** The request of a wish under its key; two wishes are the same when all they say is. */
export function backfillRequest(requestKey: string, wish: object, context: Context) {
  const request_fingerprint = context.hash.sha256(canonicalJson(wish));
  return { request_key: requestKey, request_fingerprint };
}

/**
 * The backfills that the same request has made already, or null for a new one. Refuses, with
 * IDEMPOTENCY_KEY_REUSED, a key that stands for another request.
 */
export function madeBefore(
  rows: Rows,
  { request_key, request_fingerprint }: BackfillRequest,
  clientKey: string,
): BackfillRow[] | null {
  const known = rows.requestKeys.get(request_key);
  if (known === null) return null;
  if (known.request_fingerprint !== request_fingerprint) {
    throw new PawlError(
      "IDEMPOTENCY_KEY_REUSED",
      `The request id ${JSON.stringify(clientKey)} was used before with another request, which ` +
        `made backfill ${known.backfill_ids.join(", ")}. Use a new id for a new request.`,
      { details: { key: clientKey, backfill_ids: known.backfill_ids } },
    );
  }
  rows.backfills.need(known.backfill_ids.map((id) => [id]));
  return known.backfill_ids.map((id) =>
    present(rows.backfills.get(id), `backfill ${id} of the request exists`),
  );
}

/** Refuses an id for a new backfill that another has. */
export function refuseTakenId(rows: Rows, backfillId: string | undefined): void {
  if (backfillId === undefined || rows.backfills.get(backfillId) === null) return;
  throw new PawlError(
    "NAME_TAKEN",
    `There is a backfill with the id ${JSON.stringify(backfillId)} already, of another request. ` +
      "Choose another id, or leave it out.",
    { details: { backfill_id: backfillId } },
  );
}
