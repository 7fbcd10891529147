import { Counter, Gauge, type Registry } from "prom-client";
import type { SegmentStatus, SyncRow } from "../work/sync/rows.ts";
import { TABLES } from "../work/tables.ts";
import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { sharedSurvey } from "./overview/stale.ts";

/** Syncs that are read at once, so that others have their turn in between. */
const PAGE = 1_000;

/** What is counted of the syncs of one name and source. */
type SourceCounts = { sync: string; source: string; lag: number; blocks: number };

/** What all syncs together come to. */
type Survey = {
  byStatus: Map<string, number>;
  segments: Record<SegmentStatus, number>;
  sources: Map<string, SourceCounts>;
};

/** What syncs can be watched by: how many there are, how far they are behind, and what audits found. */
export function syncMetrics(registry: Registry, engine: Engine): void {
  const registers = [registry];
  const survey = sharedSurvey(() => surveyOf(engine));
  const syncs: Gauge<"status"> = new Gauge({
    name: "pawl_syncs",
    help: "Syncs by status",
    labelNames: ["status"],
    registers,
    async collect() {
      const { byStatus } = await survey();
      syncs.reset();
      for (const [status, count] of byStatus) syncs.set({ status }, count);
    },
  });
  const segments: Gauge<"status"> = new Gauge({
    name: "pawl_sync_segments",
    help: "Segments of syncs by status",
    labelNames: ["status"],
    registers,
    async collect() {
      const counts = Object.entries((await survey()).segments);
      for (const [status, count] of counts) segments.set({ status }, count);
    },
  });
  const quarantined: Gauge = new Gauge({
    name: "pawl_sync_quarantined_segments",
    help: "Segments that could not be fetched and wait for somebody to decide",
    registers,
    collect: async () => quarantined.set((await survey()).segments.QUARANTINED),
  });
  const gauges: [string, string, (counts: SourceCounts) => number][] = [
    [
      "pawl_sync_lag_blocks",
      "Blocks between what may be synced and the end of the complete prefix, the largest of a source",
      ({ lag }) => lag,
    ],
    ["pawl_sync_blocks_complete", "Blocks in complete segments", ({ blocks }) => blocks],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge<"sync" | "source"> = new Gauge({
      name,
      help,
      labelNames: ["sync", "source"],
      registers,
      async collect() {
        const { sources } = await survey();
        gauge.reset();
        for (const counts of sources.values()) {
          gauge.set({ sync: counts.sync, source: counts.source }, valueOf(counts));
        }
      },
    });
  }
  auditMetrics(registry, engine);
}

function auditMetrics(registry: Registry, engine: Engine): void {
  const counters = [
    ["pawl_sync_audits_total", "Syncs whose segments this server went through", "audits"],
    ["pawl_sync_faults_total", "Syncs that were found with a fault and paused", "faults"],
  ] as const;
  for (const [name, help, count] of counters) {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        counter.reset();
        counter.inc(engine.syncAudits()[count]);
      },
    });
  }
}

async function surveyOf(engine: Engine): Promise<Survey> {
  const survey: Survey = {
    byStatus: new Map(),
    segments: { PENDING: 0, RUNNING: 0, COMPLETE: 0, FAILED: 0, QUARANTINED: 0 },
    sources: new Map(),
  };
  const safe = await engine.read(safeBlocks);
  for (let after = ""; ; ) {
    const page = await engine.read((reader) => livingSyncs(reader, after));
    for (const sync of page) {
      addTo(survey, sync, safe.get(nameOf(sync)) ?? null);
      after = sync.sync_id;
    }
    if (page.length < PAGE) return survey;
  }
}

async function livingSyncs(reader: Reader, after: string): Promise<SyncRow[]> {
  return reader.find({
    table: TABLES.syncs,
    where: [
      { cell: "state", is: "<>", value: "REMOVED" },
      { cell: "sync_id", is: ">", value: after },
    ],
    order: [{ cell: "sync_id" }],
    limit: PAGE,
  });
}

function addTo({ byStatus, segments, sources }: Survey, sync: SyncRow, safe: number | null): void {
  byStatus.set(sync.status, (byStatus.get(sync.status) ?? 0) + 1);
  segments.PENDING += sync.segments_pending;
  segments.RUNNING += sync.segments_running;
  segments.COMPLETE += sync.segments_complete;
  segments.FAILED += sync.segments_failed;
  segments.QUARANTINED += sync.segments_quarantined;
  const known = sources.get(nameOf(sync));
  const end = Math.min(safe ?? sync.synced_to, sync.to_limit ?? Number.POSITIVE_INFINITY);
  sources.set(nameOf(sync), {
    sync: sync.name,
    source: sync.source,
    lag: Math.max(known?.lag ?? 0, end - sync.synced_to),
    blocks: (known?.blocks ?? 0) + sync.blocks_complete,
  });
}

function nameOf({ name, source }: { name: string; source: string }): string {
  return JSON.stringify([name, source]);
}

/** The newest block that may be synced, of each source whose definition is there. */
async function safeBlocks(reader: Reader): Promise<Map<string, number>> {
  const order = [{ cell: "name" }, { cell: "source" }];
  const find = { table: TABLES.syncSources, where: [], order, limit: 10_000 };
  const sources = await reader.find(find);
  const names = [...new Set(sources.map(({ name }) => name))];
  const definitions = await reader.load(
    TABLES.definitions,
    names.map((name) => ["sync", name]),
  );
  const hashes = definitions.map(({ spec_hash }) => [spec_hash]);
  const specs = new Map(
    (await reader.load(TABLES.specs, hashes)).map(({ name, body }) => [name, body]),
  );
  return new Map(
    sources.flatMap((source) => {
      const spec = specs.get(source.name);
      if (spec?.kind !== "sync") return [];
      const safe = source.head - spec.finality;
      return [[nameOf(source), spec.to === null ? safe : Math.min(safe, spec.to)] as const];
    }),
  );
}
