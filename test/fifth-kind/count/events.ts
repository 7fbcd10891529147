import { z } from "zod";
import { Count, Sha256 } from "../envelope.ts";
import { COUNT_STATES } from "./rows.ts";

/** What happens to counts, besides what happens to their runs. */
export const COUNT_EVENTS = {
  CountMade: z.strictObject({
    count_id: z.string(),
    asset_key: z.string(),
    spec_hash: Sha256,
    to: Count,
    chunk_size: z.int().positive(),
  }),
  CountStateChanged: z.strictObject({
    count_id: z.string(),
    to_state: z.enum(COUNT_STATES),
    state_version: Count,
    /** Whether the failed chunks are to run again. */
    retries: z.boolean(),
    reason: z.string().nullable(),
  }),
};

type Own = typeof COUNT_EVENTS;

declare module "../events.ts" {
  interface KindEvents extends Own {}
}
