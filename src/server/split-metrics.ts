import { Gauge, type Registry } from "prom-client";
import { SplitPhaseField } from "../core/events/split-events.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { sharedSurvey } from "./shared-survey.ts";
import { liveSplits } from "./split-document.ts";

/** Most splits that are shown: those under way, and the newest of the others. */
const ACTIVE_MAX = 1_000;
const ENDED_MAX = 100;

const LABELS = ["split_id", "source_shard", "target_shard"] as const;

type Split = { labels: Record<(typeof LABELS)[number], string>; row: SplitRow };

const PHASES = SplitPhaseField.options;

const GAUGES: readonly [string, string, (row: SplitRow) => number | null][] = [
  [
    "pawl_split_phase",
    `The phase of a split as a number: ${PHASES.map((name, at) => `${at} ${name}`).join(", ")}`,
    ({ phase }) => PHASES.indexOf(phase),
  ],
  [
    "pawl_split_rows_copied",
    "Rows that the backfill of a split has copied",
    ({ total_rows_copied }) => total_rows_copied,
  ],
  [
    "pawl_split_tail_lag_events",
    "Changes that are captured and not applied to the target yet",
    ({ tail_lag_events }) => tail_lag_events,
  ],
  [
    "pawl_split_tail_lag_seconds",
    "How far the target is behind the source",
    ({ tail_lag_ms }) => (tail_lag_ms === null ? null : tail_lag_ms / 1_000),
  ],
  [
    "pawl_split_write_pause_seconds",
    "How long writes stood still at the last cutover of a split",
    ({ write_pause_us }) => (write_pause_us === null ? null : write_pause_us / 1_000_000),
  ],
  ["pawl_split_tenants", "Tenants of a split", ({ tenants }) => tenants.length],
  ["pawl_split_failures", "Attempts at steps of a split that failed", ({ failures }) => failures],
];

/** What splits can be watched by: where they stand, how far behind they are, how long writes stood. */
export function splitMetrics(registry: Registry, engine: Engine): void {
  const registers = [registry];
  const survey = sharedSurvey(() => engine.read(shownSplits));
  for (const [name, help, valueOf] of GAUGES) {
    const gauge: Gauge<(typeof LABELS)[number]> = new Gauge({
      name,
      help,
      labelNames: LABELS,
      registers,
      async collect() {
        const splits = await survey();
        gauge.reset();
        for (const { labels, row } of splits) {
          const value = valueOf(row);
          if (value !== null) gauge.set(labels, value);
        }
      },
    });
  }
  const info: Gauge = new Gauge({
    name: "pawl_split_info",
    help: "Splits, with the phase and the state of the copy and the tail in words; always 1",
    labelNames: [...LABELS, "phase", "backfill_status", "tail_status"],
    registers,
    async collect() {
      const splits = await survey();
      info.reset();
      for (const { labels, row } of splits) {
        const { phase, backfill_status, tail_status } = row;
        info.set({ ...labels, phase, backfill_status, tail_status }, 1);
      }
    },
  });
}

async function shownSplits(reader: Reader): Promise<Split[]> {
  const isActive = [
    "planning",
    "dual_write",
    "backfill",
    "tailing",
    "cutover_pending",
    "reversible",
  ];
  const active = (await reader.find({
    table: TABLES.splits,
    where: [{ cell: "phase", is: "in", values: isActive }],
    order: [{ cell: "split_id" }],
    limit: ACTIVE_MAX,
  })) as SplitRow[];
  const ended = (await reader.find({
    table: TABLES.splits,
    where: [{ cell: "phase", is: "in", values: ["completed", "rolled_back"] }],
    order: [{ cell: "created_pos", descending: true }],
    limit: ENDED_MAX,
  })) as SplitRow[];
  const live = await liveSplits(reader, [...active, ...ended]);
  return live.map(({ row }) => ({
    labels: { split_id: row.split_id, source_shard: row.source, target_shard: row.target },
    row,
  }));
}
