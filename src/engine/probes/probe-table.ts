import type { Instant } from "../../kernel/instant.ts";
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
    return this.#store.read(this.#ws, body);
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
