import { readInTurn } from "../asking.ts";
import { type Instant, msBetween } from "../../kernel/instant.ts";
import type {
  NewProbe,
  Probe,
  ProbeClaim,
  ProbeEnd,
  ProbeKind,
  Reader,
  Store,
  WorkspaceId,
} from "../../store/store.ts";
import type { Spec } from "../../work/definition/published-spec.ts";
import { TABLES } from "../../work/tables.ts";
import type { Environment } from "../config.ts";

/** Most probes of a kind that are read at once. */
export const PROBES_READ_MAX = 10_000;

/** The probes of a workspace. */
export class ProbeTable {
  readonly #store: Store;
  readonly #ws: WorkspaceId;

  constructor({ store, ws }: { store: Store; ws: WorkspaceId }) {
    this.#store = store;
    this.#ws = ws;
  }

  read<Result>(body: (reader: Reader) => Promise<Result>): Promise<Result> {
    return readInTurn(this.#store, this.#ws, body);
  }

  async add(probes: readonly NewProbe[]): Promise<void> {
    if (probes.length > 0) await this.#store.addProbes(this.#ws, probes);
  }

  /** Writes those that are not there, and nothing when all are. */
  async addMissing(wanted: readonly NewProbe[]): Promise<void> {
    if (wanted.length === 0) return;
    const ids = wanted.map(({ probe_id }) => probe_id);
    const present = await this.read((reader) => reader.probes(ids));
    const known = new Set(present.map(({ probe_id }) => probe_id));
    await this.add(wanted.filter(({ probe_id }) => !known.has(probe_id)));
  }

  /** Removes those of a kind about anything else than these; answers what there was. */
  async removeNeedless(kind: ProbeKind, needed: ReadonlySet<string>): Promise<Probe[]> {
    const probes = await this.read((reader) => reader.probesOf(kind, null, PROBES_READ_MAX));
    const subjects = new Set(probes.map(({ subject }) => subject));
    for (const subject of subjects) if (!needed.has(subject)) await this.remove([kind], subject);
    return probes;
  }

  remove(kinds: readonly ProbeKind[], subject: string): Promise<void> {
    return this.#store.removeProbes(this.#ws, kinds, subject);
  }

  /** Makes probes due now, whenever they were. */
  async hurry(probeIds: readonly string[], now: Instant): Promise<void> {
    const probes = probeIds.map((probe_id) => ({ probe_id, due_at: now }));
    await this.#store.rescheduleProbes(this.#ws, probes);
  }

  lease(claim: ProbeClaim): Promise<Probe[]> {
    return this.#store.leaseProbes(this.#ws, claim);
  }

  async settle(ends: readonly ProbeEnd[]): Promise<void> {
    if (ends.length > 0) await this.#store.settleProbes(this.#ws, ends);
  }
}

/** Reads specs of one sort, which never change under their hash and are kept. */
export class SpecCache<Kept> {
  readonly #pick: (spec: Spec) => Kept | null;
  readonly #keptMax: number;
  readonly #specs = new Map<string, Kept>();

  /** `pick` answers null for specs of another sort. */
  constructor(pick: (spec: Spec) => Kept | null, keptMax: number) {
    this.#pick = pick;
    this.#keptMax = keptMax;
  }

  /** The specs under the hashes that these rows name. */
  async of(
    reader: Reader,
    rows: readonly { spec_hash: string }[],
  ): Promise<ReadonlyMap<string, Kept>> {
    if (this.#specs.size > this.#keptMax) this.#specs.clear();
    const hashes = new Set(rows.map(({ spec_hash }) => spec_hash));
    const unknown = [...hashes].filter((hash) => !this.#specs.has(hash));
    const found =
      unknown.length === 0
        ? []
        : await reader.load(
            TABLES.specs,
            unknown.map((hash) => [hash]),
          );
    for (const { spec_hash, body } of found) {
      const spec = this.#pick(body);
      if (spec !== null) this.#specs.set(spec_hash, spec);
    }
    return this.#specs;
  }
}

const TIMER_MS_MAX = 2 ** 30;

/** The milliseconds of a timer for something that is due in so many: at least one, and no more than it can. */
export function timerMs(ms: number): number {
  return Math.min(Math.max(1, ms), TIMER_MS_MAX);
}

/** When a probe can be leased: it is due, and nobody has it. */
export function freeAt({ due_at, leased_until }: Pick<Probe, "due_at" | "leased_until">): Instant {
  return leased_until !== null && leased_until > due_at ? leased_until : due_at;
}

/** How long it is until one of these can be leased, at most so long; nothing for one that is due. */
export function freeInMs(
  probes: readonly Pick<Probe, "due_at" | "leased_until">[],
  now: Instant,
  msMax: number,
): number {
  return Math.max(0, Math.min(msMax, ...probes.map((probe) => msBetween(now, freeAt(probe)))));
}

/** The claims that wait for polls to fall due. */
export class PollWaits {
  readonly #environment: Environment;
  readonly #wakes = new Set<() => void>();

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get size(): number {
    return this.#wakes.size;
  }

  /** There may be something for whoever waits. */
  wake(): void {
    for (const wake of this.#wakes) wake();
  }

  /**
   * Begins to listen before a look, so that nothing which happens during it is missed. `until` resolves
   * on news, or after so many milliseconds when they are given.
   */
  listen(): { until(ms: number | null): Promise<void>; end(): void } {
    const { promise, resolve: wake } = Promise.withResolvers<void>();
    let cancel: () => void = () => {};
    this.#wakes.add(wake);
    return {
      until: (ms) => {
        if (ms !== null) {
          cancel = this.#environment.timer(timerMs(ms), wake);
        }
        return promise;
      },
      end: () => {
        cancel();
        this.#wakes.delete(wake);
      },
    };
  }

  /** How long a claim has patience: until its time is up or its caller goes away. */
  patience(waitMs: number, signal: AbortSignal | undefined): { isOver(): boolean; end(): void } {
    let isLate = waitMs === 0;
    const late = (): void => {
      isLate = true;
      this.wake();
    };
    const cancel = waitMs === 0 ? () => {} : this.#environment.timer(waitMs, late);
    signal?.addEventListener("abort", late, { once: true });
    return {
      isOver: () => isLate || signal?.aborted === true,
      end: () => {
        cancel();
        signal?.removeEventListener("abort", late);
      },
    };
  }
}
