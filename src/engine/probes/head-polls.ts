import { addMs, type Instant } from "../../kernel/instant.ts";
import type { LearntSource, NewProbe, Probe, ProbeEnd, Reader } from "../../store/store.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import { type Actor, boundedFailure, type RecordedEvent } from "../../work/envelope.ts";
import type { EventData } from "../../work/events.ts";
import {
  anchorsFor,
  GOING_ON,
  headMemoryOf,
  headProbeId,
  longestPauseMs,
  needsHead,
  nextHeadAt,
  recordHead,
  RESTING,
  sourceOfProbe,
  type SyncSource,
} from "../../work/sync/head.ts";
import { asSyncSpec } from "../../work/sync/look-up.ts";
import type { SyncRow, SyncSourceRow } from "../../work/sync/rows.ts";
import type {
  Anchor,
  ClaimedHead,
  HeadClaimAnswer,
  HeadClaimRequest,
  HeadOutcome,
  HeadReportAnswer,
  HeadReportRequest,
  HeadResult,
  SourceExchange,
  SourceExchangeAnswer,
} from "../../work/probe-protocol.ts";
import type { SyncSpec } from "../../work/sync/spec.ts";
import { TABLES } from "../../work/tables.ts";
import type { DecisionCause } from "../commit.ts";
import { workerCause } from "../serve-claims.ts";
import {
  type Decided,
  type Made,
  type PollChange,
  type PollHost,
  type PollKind,
  Polls,
  refusalOf,
  type Take,
  workerKey,
} from "./polls.ts";
import { freeInMs, PROBES_READ_MAX, ProbeTable, SpecCache } from "./probe-table.ts";

/** How long a poll of a head may take. */
const HEAD_TIMEOUT_MS = 30_000;
/** Longest wait of a claim without another look: heads may be added and reported elsewhere. */
const LOOK_AGAIN_MS = 2_000;
/** Probes that are looked at for the next due time. */
const SOON_MAX = 200;
/** Specs that are kept. */
const KEPT_MAX = 1_000;
/** Syncs that are read at once in search of one that needs the head. */
const PAGE = 1_000;
/** Segments below the source's own anchors whose ends a poll is given. */
const SEGMENTS_GIVEN = 64;
/** How long after its last word a worker counts as one that uses a source. */
const USED_WITHIN_MS = 30_000;

type Verdict = "recorded" | "unchanged";

/** How the polls of one head go. */
export type HeadStatus = SyncSource & {
  looked_at: Instant | null;
  due_at: Instant;
  is_due: boolean;
  /** Polls in a row that failed, and why the last one did. */
  failures: number;
  error: Failure | null;
};

/**
 * Polls the heads of sources: one probe for each source of a sync whose head somebody needs. Those
 * that nobody needs any more go when they are leased. Also shares what workers learnt about sources.
 */
export class HeadPolls implements PollKind<HeadClaimRequest, ClaimedHead, HeadResult, Verdict> {
  readonly name = "heads";
  readonly followed = [];
  // What is seen twice moves a head once.
  readonly repeatable = ["head"] as const;
  readonly polls: Polls<HeadClaimRequest, ClaimedHead, HeadResult, Verdict>;
  readonly #host: PollHost;
  readonly #probes: ProbeTable;
  readonly #specs = new SpecCache(asSyncSpec, KEPT_MAX);
  readonly #wanted = new Map<string, SyncSource>();
  readonly #resumed = new Set<string>();
  readonly #hurried = new Set<string>();

  constructor(host: PollHost) {
    this.#host = host;
    this.#probes = new ProbeTable(host);
    this.polls = new Polls(host, this);
  }

  async claim(
    request: HeadClaimRequest,
    signal: AbortSignal | undefined,
    actor: Actor,
  ): Promise<HeadClaimAnswer> {
    const heads = await this.polls.claim(request, signal, actor);
    return { ttl_ms: this.#host.leaseMs, heads };
  }

  async report({ results }: HeadReportRequest, actor: Actor): Promise<HeadReportAnswer> {
    return { results: await this.polls.report(results, workerCause(actor)) };
  }

  /** How the polls of all heads go. */
  async status(): Promise<HeadStatus[]> {
    const now = await this.#host.store.now();
    const probes = await this.#read((reader) => reader.probesOf("head", null, PROBES_READ_MAX));
    return probes.map((probe) => {
      const { due_at, value } = probe;
      return { ...sourceOfProbe(probe), due_at, is_due: due_at <= now, ...headMemoryOf(value) };
    });
  }

  /** Shares what a worker learnt about sources, and answers what all together know. */
  async exchangeSources(exchange: SourceExchange, actor: Actor): Promise<SourceExchangeAnswer> {
    const { store, ws } = this.#host;
    // Workers make up their names: nobody speaks for the worker of another token.
    const user = workerKey(exchange, actor);
    const sources = await store.exchangeSources(ws, user, exchange.sources, USED_WITHIN_MS);
    return { sources };
  }

  /** What all workers together learnt about sources. */
  learntSources(): Promise<LearntSource[]> {
    return this.#host.store.learntSources(this.#host.ws, USED_WITHIN_MS);
  }

  note(event: RecordedEvent): PollChange | null {
    switch (event.type) {
      case "SyncsAdded": {
        const { name, syncs } = JSON.parse(event.data) as EventData<typeof event.type>;
        for (const { source } of syncs) {
          const one = { sync: name, source };
          this.#wanted.set(headProbeId(one), one);
        }
        return "some";
      }
      case "SyncStateChanged": {
        const changed = JSON.parse(event.data) as EventData<typeof event.type>;
        if (!RESTING.has(changed.from_state)) return null;
        this.#resumed.add(changed.sync_id);
        return "some";
      }
      case "DefinitionsPublished": {
        const { specs } = JSON.parse(event.data) as EventData<typeof event.type>;
        const published = specs.filter(({ body }) => asSyncSpec(body) !== null);
        for (const { name } of published) this.#hurried.add(name);
        return published.length > 0 ? "all" : null;
      }
      default:
        return null;
    }
  }

  async refresh(isAll: boolean, now: Instant): Promise<void> {
    const wanted = [...this.#wanted.values()];
    const resumed = [...this.#resumed];
    const hurried = [...this.#hurried];
    this.#wanted.clear();
    this.#resumed.clear();
    this.#hurried.clear();
    if (isAll) await this.#refreshAll(now);
    else await this.#add([...wanted, ...(await this.#sourcesOf(resumed))], now);
    for (const sync of hurried) {
      const probes = await this.#read((reader) => reader.probesOf("head", sync, PROBES_READ_MAX));
      const ids = probes.map(({ probe_id }) => probe_id);
      // What somebody published is polled without waiting for its time.
      await this.#probes.hurry(ids, now);
    }
  }

  async take(
    claim: HeadClaimRequest | null,
    holder: string | null,
  ): Promise<Take<ClaimedHead, HeadResult>> {
    const syncs = claim?.syncs ?? [];
    if (claim === null || syncs.length === 0) {
      return { claimed: [], made: [], waitMs: async () => (claim === null ? null : LOOK_AGAIN_MS) };
    }
    const terms = { limit: claim.slots, ttlMs: this.#host.leaseMs, holder };
    const leased = await this.#probes.lease({ kinds: ["head"], subjects: syncs, ...terms });
    const claimed = await this.#prepare(leased);
    // When all of them were needless there may be others at once.
    const waitMs = async () => (leased.length > 0 ? 0 : this.#idleMs(syncs));
    return { claimed, made: [], waitMs };
  }

  async record(
    results: readonly { result: Made<HeadResult>; probe: Probe }[],
    cause: DecisionCause,
    now: Instant,
  ): Promise<Decided<Verdict>[]> {
    const names = results.map(({ probe }) => probe.subject);
    const specs = await this.#read((reader) => this.#specsOf(reader, names));
    const decided: Decided<Verdict>[] = [];
    for (const { result, probe } of results) {
      const { verdict, outcome } = await this.#recordOne(probe, result, cause);
      const everyMs = specs.get(probe.subject)?.head_every_ms ?? null;
      decided.push({ verdict, ...endOf(probe, outcome, everyMs, now) });
    }
    return decided;
  }

  /** Records what was seen; what cannot be recorded becomes a failure that says why. */
  async #recordOne(
    probe: Probe,
    { outcome, as_of }: Made<HeadResult>,
    cause: DecisionCause,
  ): Promise<{ verdict: Verdict; outcome: HeadOutcome }> {
    if (outcome.type === "failed") return { verdict: "unchanged", outcome };
    const decide = recordHead({ ...sourceOfProbe(probe), outcome, asOf: as_of ?? null });
    try {
      // Most polls find the head where it was: that is seen without the lock.
      const reckoned = await this.#host.reckon(decide);
      if (reckoned === "unchanged") return { verdict: reckoned, outcome };
      return { verdict: await this.#host.record(decide, cause), outcome };
    } catch (error) {
      const refused = refusalOf("what it saw", error);
      return { verdict: "unchanged", outcome: { type: "failed", error: refused } };
    }
  }

  /** How long it is no use to look again, unless something is heard. */
  async #idleMs(syncs: readonly string[]): Promise<number> {
    const own = new Set(syncs);
    const now = await this.#host.store.now();
    const soon = await this.#read((reader) => reader.probesOf("head", null, SOON_MAX));
    const mine = soon.filter(({ subject }) => own.has(subject));
    return freeInMs(mine, now, LOOK_AGAIN_MS);
  }

  /** Says what each poll needs; heads that nobody needs any more are forgotten. */
  async #prepare(leased: readonly Probe[]): Promise<ClaimedHead[]> {
    if (leased.length === 0) return [];
    const claimed: ClaimedHead[] = [];
    const needless: Probe[] = [];
    await this.#read(async (reader) => {
      const names = leased.map(({ subject }) => subject);
      const specs = await this.#specsOf(reader, names);
      for (const probe of leased) {
        const head = await claimedHead(reader, probe, specs.get(probe.subject));
        if (head === null) needless.push(probe);
        else claimed.push(head);
      }
    });
    if (needless.length === 0) return claimed;
    const gone = { due_at: null, value: null };
    await this.#probes.settle(
      needless.map(({ probe_id, attempt }): ProbeEnd => ({ probe_id, attempt, ...gone })),
    );
    // Somebody may have come to need it after it was looked up and before it went.
    await this.#add(needless.map(sourceOfProbe), await this.#host.store.now());
    return claimed;
  }

  /** Makes the probes of those of these sources whose head somebody needs; answers which they are. */
  async #add(sources: readonly SyncSource[], now: Instant): Promise<SyncSource[]> {
    if (sources.length === 0) return [];
    const unique = new Map(sources.map((one) => [headProbeId(one), one]));
    const needed = await this.#read(async (reader) => {
      const names = sources.map(({ sync }) => sync);
      const specs = await this.#specsOf(reader, names);
      const found: SyncSource[] = [];
      for (const one of unique.values()) {
        if ((await neededHead(reader, one, specs.get(one.sync))) !== null) found.push(one);
      }
      return found;
    });
    await this.#probes.addMissing(needed.map((one) => newProbe(one, now)));
    return needed;
  }

  async #sourcesOf(ids: readonly string[]): Promise<SyncSource[]> {
    if (ids.length === 0) return [];
    const keys = ids.map((id) => [id]);
    const rows = await this.#read((reader) => reader.load(TABLES.syncs, keys));
    return rows.map(({ name, source }) => ({ sync: name, source }));
  }

  async #refreshAll(now: Instant): Promise<void> {
    const groups = await this.#read((reader) =>
      reader.countBy(TABLES.syncs, [GOING_ON], ["name", "source"]),
    );
    const sources = groups
      .slice(0, PROBES_READ_MAX)
      .map(({ values }) => ({ sync: String(values["name"]), source: String(values["source"]) }));
    const needed = await this.#add(sources, now);
    const names = new Set(needed.map(({ sync }) => sync));
    await this.#mend(await this.#probes.removeNeedless("head", names), now);
  }

  /** Makes heads due that would be only after longer than they ever wait: the clock was set back. */
  async #mend(probes: readonly Probe[], now: Instant): Promise<void> {
    const names = probes.map(({ subject }) => subject);
    const specs = await this.#read((reader) => this.#specsOf(reader, names));
    const wrong = probes.filter(({ subject, due_at, leased_until }) => {
      const latest = addMs(now, longestPauseMs(specs.get(subject)?.head_every_ms ?? 0));
      return due_at > latest || (leased_until !== null && leased_until > latest);
    });
    if (wrong.length === 0) return;
    await this.#probes.settle(
      wrong.map(({ probe_id, attempt, value }) => ({ probe_id, attempt, value, due_at: now })),
    );
    const ids = wrong.map(({ probe_id }) => probe_id);
    await this.#probes.hurry(ids, now);
  }

  /** The specs of those of these syncs that are defined, by name. */
  async #specsOf(reader: Reader, names: readonly string[]): Promise<Map<string, SyncSpec>> {
    const keys = [...new Set(names)].map((name) => ["sync", name]);
    const rows = await reader.load(TABLES.definitions, keys);
    const specs = await this.#specs.of(reader, rows);
    return new Map(
      rows.flatMap(({ name, spec_hash }) => {
        const spec = specs.get(spec_hash);
        return spec === undefined ? [] : [[name, spec] as const];
      }),
    );
  }

  #read<Result>(body: (reader: Reader) => Promise<Result>): Promise<Result> {
    return this.#probes.read(body);
  }
}

function newProbe(one: SyncSource, now: Instant): NewProbe {
  const probe_id = headProbeId(one);
  return { probe_id, kind: "head", subject: one.sync, due_at: now, value: null };
}

/** When the head is due again, and what is remembered of the poll; gone with its definition. */
function endOf({ value }: Probe, outcome: HeadOutcome, everyMs: number | null, now: Instant) {
  if (everyMs === null) return { due_at: null, value: null };
  const isFailed = outcome.type === "failed";
  const failures = isFailed ? headMemoryOf(value).failures + 1 : 0;
  const error = isFailed ? boundedFailure(outcome.error) : null;
  const due_at = isFailed ? nextHeadAt(now, everyMs, failures) : addMs(now, everyMs);
  return { due_at, value: { looked_at: now, failures, error } };
}

/** What a worker has to know to poll a head; null when nobody needs it. */
async function claimedHead(
  reader: Reader,
  probe: Probe,
  spec: SyncSpec | undefined,
): Promise<ClaimedHead | null> {
  const source = sourceOfProbe(probe);
  const needed = await neededHead(reader, source, spec);
  if (spec === undefined || needed === null) return null;
  const { probe_id, attempt } = probe;
  const { row, known } = needed;
  // Also where the definition has no hash: a worker whose code has one would report a newer hash,
  // and hide a rewrite below it for ever.
  const anchors = await knownHashes(reader, source, known);
  const ref = { probe_id, attempt, ...source, target: row.target };
  const { finality } = spec;
  const as_of = known?.row_version ?? 0;
  return { ...ref, finality, timeout_ms: HEAD_TIMEOUT_MS, anchors, as_of };
}

/** What is known of a head, and one of the syncs that have a use for it; null when none has. */
async function neededHead(
  reader: Reader,
  { sync, source }: SyncSource,
  spec: SyncSpec | undefined,
): Promise<{ row: SyncRow; known: SyncSourceRow | null } | null> {
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
        GOING_ON,
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

/**
 * The hashes that a poll of a head compares, newest first: those kept of the source, and below them
 * the ends of complete segments, so that a deep rewrite is not taken for one of everything. Whichever
 * of them holds, all below it does: a segment is complete only while the source holds to what was known
 * of it.
 */
async function knownHashes(
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
