import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { Count, FailureField, InstantText, type RecordedEvent } from "../../work/envelope.ts";
import { addMs, type Instant, msBetween } from "../../kernel/instant.ts";
import type { Anchor } from "../../work/sync/source-protocol.ts";
import type { NewProbe, Probe, Reader, Store, WorkspaceId } from "../../store/store.ts";
import type { SyncRow, SyncSourceRow } from "../../work/sync/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { TABLES } from "../../work/tables.ts";
import type { SyncSpec } from "../../work/sync/spec.ts";
import type { EventData } from "../../work/events.ts";
import type { DefinitionRow } from "../../work/definition/rows.ts";

/** Longest pause between two looks at a head that fail, unless it is looked at more seldom. */
const BACKOFF_MS_MAX = 60_000;
/** Newest known hashes that a look is given; a rewrite that is deeper is measured by the oldest. */
const ANCHORS_GIVEN = 32;

/** What the probe of a head remembers. */
export const HeadMemory = z.object({
  looked_at: InstantText.nullable().default(null),
  /** Looks in a row that failed, and why the last one did. */
  failures: Count.default(0),
  error: FailureField.nullable().default(null),
});
export type HeadMemory = z.infer<typeof HeadMemory>;

/** What a probe remembers; nothing when it is new, or its value is not as expected. */
export function headMemoryOf(value: Json): HeadMemory {
  return HeadMemory.safeParse(value ?? {}).data ?? HeadMemory.parse({});
}

/** The probe of a source's head. */
export function headProbeId(sync: string, source: string): string {
  return `head:${sync}:${source}`;
}

/** The source that a head's probe is about. */
export function sourceOfProbe({ probe_id, subject }: Pick<Probe, "probe_id" | "subject">): string {
  return probe_id.slice(headProbeId(subject, "").length);
}

/** A look at a head that is due at once. */
export function newHeadProbe(sync: string, source: string, now: Instant): NewProbe {
  const probe_id = headProbeId(sync, source);
  return { probe_id, kind: "head", subject: sync, due_at: now, value: null };
}

/** The longest time between two looks at a head, however often they fail. */
export function longestPauseMs(everyMs: number): number {
  return Math.max(everyMs, BACKOFF_MS_MAX);
}

/** When a head is looked at again after so many looks in a row that failed. */
export function nextHeadAt(now: Instant, everyMs: number, failures: number): Instant {
  return addMs(now, Math.min(everyMs * 2 ** Math.min(failures, 30), longestPauseMs(everyMs)));
}

/** How long it is until one of these can be leased, at most so long; nothing for one that is due. */
export function freeInMs(
  probes: readonly Pick<Probe, "due_at" | "leased_until">[],
  now: Instant,
  msMax: number,
): number {
  const waits = probes.map(({ due_at, leased_until }) =>
    msBetween(now, leased_until !== null && leased_until > due_at ? leased_until : due_at),
  );
  return Math.max(0, Math.min(msMax, ...waits));
}

/** The known hashes that a look compares, newest first: the newest ones, and the oldest of all. */
export function anchorsFor(known: readonly Anchor[]): Anchor[] {
  const [oldest] = known;
  const newest = known.slice(-ANCHORS_GIVEN).toReversed();
  return oldest === undefined || known.length <= ANCHORS_GIVEN ? newest : [...newest, oldest];
}

/** Syncs that are read at once in search of one that needs the head. */
const PAGE = 1_000;

/** The syncs that go on with their source. */
export const LOOKING: Condition = {
  cell: "state",
  is: "in",
  values: ["PENDING", "RUNNING", "FOLLOWING"],
};

/** A source of a sync. */
export type SyncSource = { sync: string; source: string };

/** A head that is worth looking up. */
export type NeededHead = {
  /** One of those that need it. */
  row: SyncRow;
  known: SyncSourceRow | null;
};

/** Whether a sync may still grow, or waits for blocks to become safe. */
function needsHead(row: SyncRow, spec: SyncSpec, known: SyncSourceRow | null): boolean {
  const end = row.to_limit ?? spec.to;
  if (end === null || row.planned_to === null || row.planned_to < end) return true;
  // Nothing runs while the head is not known, as of a range that was planned when there was none; and
  // a rewrite may have put the head back below what was planned before.
  if (known === null || row.planned_to > known.head - spec.finality) return true;
  // What is open is not fetched before a hash is known, nor complete while the source has left one, and
  // only a look finds out that the source was rewritten.
  return row.synced_to < row.planned_to && (spec.has.hash || known.anchors.length > 0);
}

/** The head of a source, when one of its syncs has a use for it. */
export async function neededHead(
  reader: Reader,
  { sync, source }: SyncSource,
  spec: SyncSpec | undefined,
): Promise<NeededHead | null> {
  if (spec === undefined || !spec.has.head) return null;
  const [found] = await reader.load(TABLES.syncSources, [[sync, source]]);
  const known = found ?? null;
  let after = "";
  // Mostly the first one needs it.
  for (let limit = 1; ; limit = PAGE) {
    const rows = await reader.find({
      table: TABLES.syncs,
      where: [
        { cell: "name", is: "=", value: sync },
        { cell: "source", is: "=", value: source },
        LOOKING,
        { cell: "sync_id", is: ">", value: after },
      ],
      order: [{ cell: "sync_id" }],
      limit,
    });
    const row = rows.find((candidate) => needsHead(candidate, spec, known));
    if (row !== undefined) return { row, known };
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) return null;
    after = last.sync_id;
  }
}

/** Most heads that are looked after. */
const HEADS_MAX = 10_000;

/** States in which a sync needs no head, so that leaving them may bring the need back. */
const RESTING: ReadonlySet<string> = new Set(["PAUSED", "COMPLETE"]);

/**
 * Keeps one probe for each source of a sync whose head somebody needs. Probes may be lost at any
 * time: all are made again from the rows. Those that nobody needs any more go when they are leased.
 */
export class HeadKeeper {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #specs: SyncSpecs;
  readonly #wanted = new Map<string, SyncSource>();
  readonly #resumed = new Set<string>();
  readonly #hurried = new Set<string>();
  /** Everything is to be compared at the next step. */
  isSweepDue = true;

  constructor(store: Store, ws: WorkspaceId, specs: SyncSpecs) {
    this.#store = store;
    this.#ws = ws;
    this.#specs = specs;
  }

  /** Notes what an event may mean for heads; answers whether it means anything. */
  note(event: RecordedEvent): boolean {
    switch (event.type) {
      case "SyncsAdded": {
        const { name, syncs } = JSON.parse(event.data) as EventData<typeof event.type>;
        for (const { source } of syncs) this.#want({ sync: name, source });
        return true;
      }
      case "SyncStateChanged": {
        const changed = JSON.parse(event.data) as EventData<typeof event.type>;
        if (!RESTING.has(changed.from_state)) return false;
        this.#resumed.add(changed.sync_id);
        return true;
      }
      case "DefinitionsPublished": {
        const { specs } = JSON.parse(event.data) as EventData<typeof event.type>;
        const names = specs.flatMap(({ name, body }) => (body.kind === "sync" ? [name] : []));
        for (const name of names) this.#hurried.add(name);
        if (names.length > 0) this.isSweepDue = true;
        return names.length > 0;
      }
      default:
        return false;
    }
  }

  /** Makes the probes that are missing and forgets those of syncs that need none. */
  async step(): Promise<void> {
    const now = await this.#store.now();
    const isSweep = this.isSweepDue;
    this.isSweepDue = false;
    const wanted = [...this.#wanted.values()];
    const resumed = [...this.#resumed];
    const hurried = [...this.#hurried];
    this.#wanted.clear();
    this.#resumed.clear();
    this.#hurried.clear();
    try {
      if (resumed.length > 0) wanted.push(...(await this.#sourcesOf(resumed)));
      if (isSweep) await this.#sweep(now);
      else if (wanted.length > 0) await this.add(wanted, now);
      for (const sync of hurried) await this.#hurry(sync, now);
    } catch (error) {
      // What was noted is lost with this step: the next one compares everything.
      this.isSweepDue = true;
      throw error;
    }
  }

  /** Makes the probes of those of these sources whose head somebody needs. */
  async add(sources: readonly SyncSource[], now: Instant): Promise<void> {
    const { needed, missing } = await this.#read((reader) => this.#compare(reader, sources, now));
    if (needed.length > 0 && missing.length > 0) await this.#store.addProbes(this.#ws, missing);
  }

  #want(source: SyncSource): void {
    this.#wanted.set(headProbeId(source.sync, source.source), source);
  }

  async #sourcesOf(ids: readonly string[]): Promise<SyncSource[]> {
    const keys = ids.map((id) => [id]);
    const rows = await this.#read((reader) => reader.load(TABLES.syncs, keys));
    return rows.map(({ name, source }) => ({ sync: name, source }));
  }

  async #compare(reader: Reader, sources: readonly SyncSource[], now: Instant) {
    const specs = await this.#specs.of(
      reader,
      sources.map(({ sync }) => sync),
    );
    const unique = new Map(sources.map((one) => [headProbeId(one.sync, one.source), one]));
    const needed: SyncSource[] = [];
    for (const one of unique.values()) {
      const head: NeededHead | null = await neededHead(reader, one, specs.get(one.sync));
      if (head !== null) needed.push(one);
    }
    const ids = needed.map(({ sync, source }) => headProbeId(sync, source));
    const present = new Set((await reader.probes(ids)).map(({ probe_id }) => probe_id));
    const missing = needed
      .map(({ sync, source }) => newHeadProbe(sync, source, now))
      .filter(({ probe_id }) => !present.has(probe_id));
    return { needed, missing };
  }

  async #sweep(now: Instant): Promise<void> {
    const { needed, missing, probes } = await this.#read(async (reader) => {
      const groups = await reader.countBy(TABLES.syncs, [LOOKING], ["name", "source"]);
      const sources = groups
        .slice(0, HEADS_MAX)
        .map(({ values }) => ({ sync: String(values["name"]), source: String(values["source"]) }));
      const compared = await this.#compare(reader, sources, now);
      return { ...compared, probes: await reader.probesOf("head", null, HEADS_MAX) };
    });
    if (missing.length > 0) await this.#store.addProbes(this.#ws, missing);
    const names = new Set(needed.map(({ sync }) => sync));
    const needless = new Set(
      probes.filter(({ subject }) => !names.has(subject)).map(({ subject }) => subject),
    );
    for (const subject of needless) await this.#store.removeProbes(this.#ws, ["head"], subject);
    await this.#mend(probes, now);
  }

  /** Makes heads due that would be only after longer than they ever wait: the clock was set back. */
  async #mend(probes: readonly Probe[], now: Instant): Promise<void> {
    const names = probes.map(({ subject }) => subject);
    const specs = await this.#read((reader) => this.#specs.of(reader, names));
    const wrong = probes.filter(({ subject, due_at, leased_until }) => {
      const latest = addMs(now, longestPauseMs(specs.get(subject)?.head_every_ms ?? 0));
      return due_at > latest || (leased_until !== null && leased_until > latest);
    });
    if (wrong.length === 0) return;
    const ends = wrong.map(({ probe_id, attempt, value }) => {
      return { probe_id, attempt, value, due_at: now };
    });
    await this.#store.settleProbes(this.#ws, ends);
    await this.#store.rescheduleProbes(this.#ws, ends);
  }

  /** Lets the sources of a sync that was published be looked at without waiting for their time. */
  async #hurry(sync: string, now: Instant): Promise<void> {
    const probes = await this.#read((reader) => reader.probesOf("head", sync, HEADS_MAX));
    const late = probes.map((probe) => {
      return { probe_id: headProbeId(sync, sourceOfProbe(probe)), due_at: now };
    });
    await this.#store.rescheduleProbes(this.#ws, late);
  }

  #read<Result>(body: (reader: Reader) => Promise<Result>): Promise<Result> {
    return this.#store.read(this.#ws, body);
  }
}

/** Segments below the source's own anchors whose ends a look is given. */
const SEGMENTS_GIVEN = 64;

/**
 * The hashes that a look at a head compares, newest first: those kept of the source, and below them
 * the ends of complete segments, so that a deep rewrite is not taken for one of everything. Whichever
 * of them holds, all below it does: a segment is complete only while the source holds to what was known
 * of it.
 */
export async function knownHashes(
  reader: Reader,
  { sync, source }: SyncSource,
  known: SyncSourceRow | null,
): Promise<Anchor[]> {
  const anchors = anchorsFor(known?.anchors ?? []);
  const oldest = anchors.at(-1);
  if (oldest === undefined) return [];
  const [row] = await reader.find({
    table: TABLES.syncs,
    where: [
      { cell: "name", is: "=", value: sync },
      { cell: "source", is: "=", value: source },
      { cell: "segments_complete", is: ">", value: 0 },
    ],
    order: [{ cell: "sync_id" }],
    limit: 1,
  });
  if (row === undefined) return anchors;
  const segments = await reader.find({
    table: TABLES.segments,
    where: [
      { cell: "sync_id", is: "=", value: row.sync_id },
      { cell: "from_block", is: "<", value: oldest.block },
      { cell: "to_block", is: "<", value: oldest.block },
      { cell: "status", is: "=", value: "COMPLETE" },
      { cell: "end_hash", is: "not null" },
      // Nobody fetched to its end what was excluded.
      { cell: "excluded", is: "null" },
    ],
    order: [{ cell: "from_block", descending: true }],
    limit: SEGMENTS_GIVEN,
  });
  const ends = segments.flatMap(({ to_block: block, end_hash: hash }) =>
    hash === null ? [] : [{ block, hash }],
  );
  return [...anchors, ...ends];
}

/** Specs that are kept; they never change under their hash. */
const KEPT_MAX = 1_000;

/** Reads the definitions of syncs as they are now. */
export class SyncSpecs {
  readonly #specs = new Map<string, SyncSpec>();

  /** The specs of those of these syncs that are defined, by name. */
  async of(reader: Reader, names: Iterable<string>): Promise<Map<string, SyncSpec>> {
    const keys = [...new Set(names)].map((name) => ["sync", name]);
    const rows = await reader.load(TABLES.definitions, keys);
    await this.#loadUnknown(reader, rows);
    return new Map(
      rows.flatMap(({ name, spec_hash }) => {
        const spec = this.#specs.get(spec_hash);
        return spec === undefined ? [] : [[name, spec] as const];
      }),
    );
  }

  async #loadUnknown(reader: Reader, rows: readonly DefinitionRow[]): Promise<void> {
    if (this.#specs.size > KEPT_MAX) this.#specs.clear();
    const unknown = rows.filter(({ spec_hash }) => !this.#specs.has(spec_hash));
    if (unknown.length === 0) return;
    const keys = unknown.map(({ spec_hash }) => [spec_hash]);
    for (const { spec_hash, body } of await reader.load(TABLES.specs, keys)) {
      if (body.kind === "sync") this.#specs.set(spec_hash, body);
    }
  }
}
