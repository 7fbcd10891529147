import type {
  AttentionDocument,
  Concern,
  RunningDocument,
} from "../../../../src/work/server-api.ts";

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

/** The states that lists can be filtered by, for what is wrong. */
const LISTED_STATES: Partial<Record<Concern, Partial<Record<Kind, string>>>> = {
  failed: { backfill: "FAILED", run: "FAILED", sensor: "ERROR", sync: "FAILED" },
  paused: {
    backfill: "PAUSED",
    schedule: "PAUSED",
    sensor: "PAUSED",
    sync: "PAUSED",
    move: "PAUSED",
  },
};

/** The list in which there is more of a kind with the same wrong. */
export function listOf({ kind, what }: { kind: Kind; what: Concern }): string {
  if (kind === "conflict") return "/conflicts";
  if (kind === "worker") return "/runs?status=PENDING,RUNNING";
  const state = LISTED_STATES[what]?.[kind];
  return `${PLACES[kind]}${state === undefined ? "" : `?status=${state}`}`;
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
