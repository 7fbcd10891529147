import { z } from "zod";
import { InstantText } from "../events/fields.ts";

/** Longest time that the secret before may stay good: 30 days. */
const OVERLAP_SECONDS_MAX = 2_592_000;

/** A wish for a new secret. */
export const NewSecretBody = z
  .strictObject({
    /** How long the one before stays good; 0 ends it at once. */
    overlap_seconds: z.int().min(0).max(OVERLAP_SECONDS_MAX).default(86_400),
  })
  .meta({ id: "NewSecret" });

/** What a new secret answers: this once the secret itself. */
export const secretAnswer = {
  message: z.string(),
  name: z.string(),
  secret: z.string(),
  created_at: InstantText,
  /** Until when the one before is good; null when there was none. */
  previous_expires_at: InstantText.nullable(),
};
