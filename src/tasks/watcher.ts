import type { Json } from "../core/canonical.ts";

/** What a look found, oldest first, and where the next one starts. */
export type Look = { items: Json[]; cursor: string | null };

/**
 * Looks at something outside for what is new since the cursor. The cursor is all that it remembers;
 * a look that finds nothing gives the very same cursor back.
 */
export interface Watcher {
  look(cursor: string | null, signal: AbortSignal): Promise<Look>;
}
