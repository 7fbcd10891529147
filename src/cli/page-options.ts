/** The options of every list. */
export type PageOptions = { limit?: number; cursor?: string };

/** The line that says how to see more of a list, if there is more. */
export function morePagesText(cursor: string | null): string {
  return cursor === null ? "" : `\n\nThere is more: --cursor ${cursor}`;
}
