import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import { addMs, type Instant } from "../core/instant.ts";
import type { SyncRow } from "../core/rows/sync-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Probe, Reader, Store, WorkspaceId } from "../store/store.ts";
import { headProbeId, longestPauseMs, newHeadProbe, sourceOfProbe } from "./head-value.ts";
import { LOOKING, type NeededHead, neededHead, type SyncSource } from "./needed-head.ts";
import type { SyncSpecs } from "./sync-specs.ts";

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
    return (rows as SyncRow[]).map(({ name, source }) => ({ sync: name, source }));
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
