import { z } from "zod";

/** What something is doing now, in words, and which commands make sense. */
export const NextField = z.strictObject({
  text: z.string(),
  commands: z.array(z.strictObject({ command: z.string(), effect: z.string() })),
});
export type NextField = z.infer<typeof NextField>;
