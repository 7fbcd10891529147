import { PawlError } from "../../kernel/errors.ts";
import { type Actor, holderOf, type RecordedEvent, boundedFailure } from "../../work/envelope.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import type {
  ClaimedHead,
  HeadClaimAnswer,
  HeadClaimRequest,
  HeadOutcome,
  HeadReportAnswer,
  HeadReportRequest,
} from "../../work/sync/source-protocol.ts";
import type { Probe, ProbeEnd, Reader, Store, WorkspaceId } from "../../store/store.ts";
import { checkToken } from "../claim-queue.ts";
import type { Cause } from "../commit.ts";
import { isStoreFailure, reasonOf } from "../commit-loop.ts";
import type { Environment } from "../config.ts";
import {
  HeadKeeper,
  freeInMs,
  headMemoryOf,
  nextHeadAt,
  sourceOfProbe,
  knownHashes,
  neededHead,
  type SyncSource,
  SyncSpecs,
} from "./head-keeper.ts";
import { isLeasedBy } from "./keeper.ts";
import { ProbeWaits } from "./desk.ts";
import { workerCause } from "../serve-claims.ts";
import { Steps } from "../sweeper.ts";

/** How long a look at a head may take. */
const HEAD_TIMEOUT_MS = 30_000;
/** How often all probes are compared with the rows. */
const SWEEP_MS = 30_000;
/** Longest wait of a claim without another look: heads may be added and reported elsewhere. */
const LOOK_AGAIN_MS = 2_000;
/** Probes that are looked at for the next due time. */
const SOON_MAX = 200;
const STATUS_MAX = 10_000;

/** What a look at the head of a source came to, and the position of what it was compared with. */
export type HeadSeen = SyncSource & { outcome: HeadOutcome; asOf: number | null };

/** How looks at heads are decided: recorded, or only reckoned. The engine hands it in. */
export type HeadDeciding = {
  record(seen: HeadSeen, cause: Cause): Promise<"recorded" | "unchanged">;
  reckon(seen: HeadSeen): Promise<"recorded" | "unchanged">;
  /** How long a look is a worker's without a heartbeat. */
  leaseMs: number;
};

/** How the looks at one head go. */
export type HeadStatus = SyncSource & {
  looked_at: Instant | null;
  due_at: Instant;
  is_due: boolean;
  /** Looks in a row that failed, and why the last one did. */
  failures: number;
  error: Failure | null;
};

/**
 * Hands looks at the heads of sources to workers and takes in what they saw. Probes live in a side
 * table; only a head that moved or was rewritten takes the workspace lock.
 */
export class HeadDesk {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #environment: Environment;
  readonly #deciding: HeadDeciding;
  readonly #specs = new SyncSpecs();
  readonly #keeper: HeadKeeper;
  readonly #waits: ProbeWaits;
  readonly #steps: Steps;
  /** The heads that this server gave to workers, who have not reported them, by their probe. */
  readonly #held = new Map<string, { worker: string; probe: Probe }>();
  #isStarted = false;
  #isFreed = false;
  #stopped = false;
  #cancelSweepTimer: (() => void) | null = null;

  constructor(store: Store, ws: WorkspaceId, environment: Environment, deciding: HeadDeciding) {
    this.#store = store;
    this.#ws = ws;
    this.#environment = environment;
    this.#deciding = deciding;
    this.#keeper = new HeadKeeper(store, ws, this.#specs);
    this.#waits = new ProbeWaits(environment);
    this.#steps = new Steps(
      environment,
      () => this.#stepOnce(),
      (reason) => environment.warn("looking after heads failed", { reason }),
    );
  }

  /** Begins to act by itself. */
  start(): void {
    this.#isStarted = true;
    this.#sweepLater();
    this.#steps.ask();
  }

  /** Ends waiting claims and lets the step under way finish. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelSweepTimer?.();
    this.#waits.wake();
    await this.#steps.stop();
  }

  /** Hears what this server committed. */
  committed(events: readonly RecordedEvent[]): void {
    if (!this.#isStarted) return;
    let isStepDue = false;
    for (const event of events) if (this.#keeper.note(event)) isStepDue = true;
    if (isStepDue) this.#steps.ask();
  }

  /** One full step: all probes are brought in step with the rows. */
  async tick(): Promise<void> {
    this.#keeper.isSweepDue = true;
    await this.#steps.makeAll();
  }

  /** Gives a worker heads to look up, waiting for some to fall due. */
  async claim(
    request: HeadClaimRequest,
    signal: AbortSignal | undefined,
    actor: Actor,
  ): Promise<HeadClaimAnswer> {
    const patience = this.#waits.patience(request.wait_ms, signal);
    try {
      for (;;) {
        await checkToken(this.#store, this.#ws, actor);
        const heads = await this.#tryClaim(request, actor, patience, signal);
        if (heads !== null) return { ttl_ms: this.#deciding.leaseMs, heads };
      }
    } finally {
      patience.end();
      if (signal?.aborted === true) await this.#giveBackOf(workerKey(request.worker_id, actor));
    }
  }

  /** Takes in what looks came to. */
  async report({ results }: HeadReportRequest, actor: Actor): Promise<HeadReportAnswer> {
    const now = await this.#store.now();
    const cause = workerCause(actor);
    const { probes, specs } = await this.#store.read(this.#ws, async (reader) => {
      const found = await reader.probes([...new Set(results.map(({ probe_id }) => probe_id))]);
      const names = found.map(({ subject }) => subject);
      return { probes: found, specs: await this.#specs.of(reader, names) };
    });
    const probeOf = new Map(probes.map((probe) => [probe.probe_id, probe]));
    const verdicts: HeadReportAnswer["results"] = [];
    const ends: ProbeEnd[] = [];
    // The fence is looked at first and ended last: what is seen twice moves a head once.
    for (const { probe_id, attempt, as_of = null, outcome } of results) {
      const probe = probeOf.get(probe_id);
      probeOf.delete(probe_id);
      const isHeld = probe?.attempt === attempt && probe.leased_until !== null;
      if (probe === undefined || !isHeld || !isLeasedBy(probe, actor)) {
        verdicts.push("lost");
        continue;
      }
      this.#held.delete(probe_id);
      if (outcome.type === "released") {
        verdicts.push("unchanged");
        ends.push(freed(probe));
        continue;
      }
      const made = await this.#record(probe, outcome, as_of, cause);
      verdicts.push(made.verdict);
      const everyMs = specs.get(probe.subject)?.head_every_ms ?? null;
      ends.push(endOf(probe, made.outcome, everyMs, now));
    }
    if (ends.length > 0) await this.#store.settleProbes(this.#ws, ends);
    this.#waits.wake();
    return { results: verdicts };
  }

  /** How the looks at all heads go. */
  async status(): Promise<HeadStatus[]> {
    const now = await this.#store.now();
    const probes = await this.#store.read(this.#ws, (reader) =>
      reader.probesOf("head", null, STATUS_MAX),
    );
    return probes.map((probe) => {
      const { subject: sync, due_at } = probe;
      const source = sourceOfProbe(probe);
      return { sync, source, due_at, is_due: due_at <= now, ...headMemoryOf(probe.value) };
    });
  }

  /** Records what was seen; what cannot be recorded becomes a failure that says why. */
  async #record(
    probe: Probe,
    outcome: HeadOutcome,
    asOf: number | null,
    cause: Cause,
  ): Promise<{ verdict: "recorded" | "unchanged"; outcome: HeadOutcome }> {
    if (outcome.type === "failed") return { verdict: "unchanged", outcome };
    const { subject: sync } = probe;
    const seen: HeadSeen = { sync, source: sourceOfProbe(probe), outcome, asOf };
    try {
      // Most looks find the head where it was: that is seen without the lock.
      if ((await this.#deciding.reckon(seen)) === "unchanged") {
        return { verdict: "unchanged", outcome };
      }
      return { verdict: await this.#deciding.record(seen, cause), outcome };
    } catch (error) {
      if (!(error instanceof PawlError) || isStoreFailure(error)) throw error;
      const message = `what it saw could not be recorded: ${reasonOf(error)}`;
      const failed = { type: "failed", error: { class: "input", message } } as const;
      return { verdict: "unchanged", outcome: failed };
    }
  }

  /** One look for a claim; when there is nothing, waits until there may be, and answers null. */
  async #tryClaim(
    { worker_id, syncs, slots }: HeadClaimRequest,
    actor: Actor,
    patience: { isOver(): boolean },
    signal: AbortSignal | undefined,
  ): Promise<ClaimedHead[] | null> {
    const heard = this.#waits.listen();
    try {
      const leased = await this.#lease(syncs, slots, holderOf(actor));
      if (signal?.aborted === true) {
        await this.#giveBack(leased);
        return [];
      }
      const heads = await this.#prepare(leased);
      const worker = workerKey(worker_id, actor);
      const given = new Set(heads.map(({ probe_id }) => probe_id));
      for (const probe of leased) {
        if (given.has(probe.probe_id)) this.#held.set(probe.probe_id, { worker, probe });
      }
      if (heads.length > 0 || patience.isOver() || this.#stopped) return heads;
      if (leased.length > 0) return null;
      await heard.until(await this.#idleMs(syncs));
      return null;
    } finally {
      heard.end();
    }
  }

  async #lease(syncs: readonly string[], limit: number, holder: string): Promise<Probe[]> {
    if (syncs.length === 0) return [];
    const ttlMs = this.#deciding.leaseMs;
    const claim = { kinds: ["head"], subjects: syncs, limit, ttlMs, holder } as const;
    return this.#store.leaseProbes(this.#ws, claim);
  }

  /** How long it is no use to look again, unless something is heard. */
  async #idleMs(syncs: readonly string[]): Promise<number> {
    const own = new Set(syncs);
    const now = await this.#store.now();
    const soon = await this.#store.read(this.#ws, (reader) =>
      reader.probesOf("head", null, SOON_MAX),
    );
    const mine = soon.filter(({ subject }) => own.has(subject));
    return freeInMs(mine, now, LOOK_AGAIN_MS);
  }

  /** Says what each look needs; heads that nobody needs any more are forgotten. */
  async #prepare(leased: readonly Probe[]): Promise<ClaimedHead[]> {
    if (leased.length === 0) return [];
    const prepared = await this.#store.read(this.#ws, (reader) => this.#look(reader, leased));
    const needless = prepared.filter(({ head }) => head === null).map(({ probe }) => probe);
    if (needless.length > 0) {
      const gone = { due_at: null, value: null };
      const ends = needless.map(({ probe_id, attempt }) => ({ probe_id, attempt, ...gone }));
      await this.#store.settleProbes(this.#ws, ends);
      // Somebody may have come to need it after it was looked up and before it went.
      const sources = needless.map((probe) => {
        return { sync: probe.subject, source: sourceOfProbe(probe) };
      });
      await this.#keeper.add(sources, await this.#store.now());
    }
    return prepared.flatMap(({ head }) => (head === null ? [] : [head]));
  }

  async #look(reader: Reader, leased: readonly Probe[]) {
    const names = leased.map(({ subject }) => subject);
    const specs = await this.#specs.of(reader, names);
    const prepared: { probe: Probe; head: ClaimedHead | null }[] = [];
    for (const probe of leased) {
      const { probe_id, attempt, subject: sync } = probe;
      const source = sourceOfProbe(probe);
      const spec = specs.get(sync);
      const needed = await neededHead(reader, { sync, source }, spec);
      if (spec === undefined || needed === null) {
        prepared.push({ probe, head: null });
        continue;
      }
      const { target } = needed.row;
      const { finality } = spec;
      const { known } = needed;
      // Also where the definition has no hash: a worker whose code has one would report a newer hash,
      // and hide a rewrite below it for ever.
      const anchors = await knownHashes(reader, { sync, source }, known);
      const as_of = known?.row_version ?? 0;
      const ref = { probe_id, attempt, sync, source, target };
      const head = { ...ref, finality, timeout_ms: HEAD_TIMEOUT_MS, anchors, as_of };
      prepared.push({ probe, head });
    }
    return prepared;
  }

  /**
   * A worker always has a claim waiting here; one that hangs up has died, most likely, and its looks
   * would keep the heads from others until their time is up. If it lives, a look is made twice.
   */
  async #giveBackOf(worker: string): Promise<void> {
    const held = [...this.#held.values()].filter((each) => each.worker === worker);
    for (const { probe } of held) this.#held.delete(probe.probe_id);
    await this.#giveBack(held.map(({ probe }) => probe));
  }

  /** Nobody listens any more: the heads are free again. */
  async #giveBack(leased: readonly Probe[]): Promise<void> {
    if (leased.length === 0) return;
    await this.#store.settleProbes(this.#ws, leased.map(freed));
    this.#waits.wake();
  }

  /**
   * Whoever was looking when the server went may have gone with it; nobody should wait for them, and
   * a look that is made twice moves a head once.
   */
  async #freeAtStart(): Promise<void> {
    if (this.#isFreed || !this.#isStarted) return;
    const probes = await this.#store.read(this.#ws, (reader) =>
      reader.probesOf("head", null, STATUS_MAX),
    );
    await this.#giveBack(probes.filter(({ leased_until }) => leased_until !== null));
    this.#isFreed = true;
  }

  #sweepLater(): void {
    this.#cancelSweepTimer = this.#environment.timer(SWEEP_MS, () => {
      this.#keeper.isSweepDue = true;
      this.#steps.ask();
      this.#sweepLater();
    });
  }

  async #stepOnce(): Promise<void> {
    await this.#freeAtStart();
    await this.#keeper.step();
    this.#waits.wake();
  }
}

/** A worker by its own name and its token: names are made up, and may be somebody else's. */
function workerKey(workerId: string, actor: Actor): string {
  return `${holderOf(actor)}/${workerId}`;
}

/** The end of a look that was not made: it is free again, and as due as it was. */
function freed({ probe_id, attempt, due_at, value }: Probe): ProbeEnd {
  return { probe_id, attempt, due_at, value };
}

/** When the head is due again, and what is remembered of the look; gone with its definition. */
function endOf(
  { probe_id, attempt, value }: Probe,
  outcome: HeadOutcome,
  everyMs: number | null,
  now: Instant,
): ProbeEnd {
  if (everyMs === null) return { probe_id, attempt, due_at: null, value: null };
  const isFailed = outcome.type === "failed";
  const failures = isFailed ? headMemoryOf(value).failures + 1 : 0;
  const memory = {
    looked_at: now,
    failures,
    error: isFailed ? boundedFailure(outcome.error) : null,
  };
  const due_at = isFailed ? nextHeadAt(now, everyMs, failures) : addMs(now, everyMs);
  return { probe_id, attempt, due_at, value: memory };
}
