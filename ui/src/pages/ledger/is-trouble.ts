import type { EventDocument } from "../../../../src/work/server-api.ts";

/** What an event says of how something ended, under whatever name. */
const ENDS = ["outcome", "to_state", "to_phase", "status", "becomes"] as const;
const BAD = /^(?:failed|error|fell_back|rolled_back|poisoned|quarantined)$/i;

/** Whether an event tells of something that went wrong. */
export function isTrouble({ type, data }: Pick<EventDocument, "type" | "data">): boolean {
  if (type === "TaskLeaseExpired" || type === "SyncRewritten") return true;
  const fields = fieldsOf(data);
  if (fields["ok"] === false) return true;
  const results = Array.isArray(fields["results"]) ? fields["results"] : [];
  return [fields, fieldsOf(fields["segment_end"]), ...results.map(fieldsOf)].some(endsBadly);
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function endsBadly(fields: Readonly<Record<string, unknown>>): boolean {
  return ENDS.some((name) => BAD.test(String(fields[name])));
}
