import type { AttentionDocument, RunningDocument } from "../../../../src/work/server-api.ts";

type Kind = AttentionDocument["kind"] | RunningDocument["kind"];

const PLACES = {
  backfill: "/backfills",
  run: "/runs",
  schedule: "/schedules",
  sensor: "/sensors",
  sync: "/syncs",
  move: "/moves",
  split: "/splits",
  asset: "/assets",
} as const;

/** Where something is shown with its cause. */
export function causeOf({ kind, id }: { kind: Kind; id: string }): string {
  if (kind === "conflict") return "/conflicts";
  if (kind === "worker") return waitingWork(id);
  return `${PLACES[kind]}/${encodeURIComponent(id)}`;
}

/** Where work that waits for a worker is seen: runs by their asset, and what syncs and shards do. */
function waitingWork(name: string): string {
  if (name.startsWith("sync:")) return `/syncs?name=${encodeURIComponent(name.slice(5))}`;
  const runs = "/runs?status=PENDING,RUNNING";
  if (name.startsWith("shards:")) return runs;
  return `${runs}&asset=${encodeURIComponent(name)}`;
}

/** A text in which times can be shown as whoever looks reads them: every second part is one. */
export function splitAtTimes(text: string): string[] {
  return text.split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)/);
}
