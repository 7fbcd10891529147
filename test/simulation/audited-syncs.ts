import type { SyncSpec } from "../../src/work/sync/spec.ts";
import type { Audited, Evidence } from "./audit-ledger.ts";
import type { AuditedSync } from "./audited-sync.ts";
import type { SimulatedChain } from "./simulated-chain.ts";
import type { Violations } from "./violations.ts";

/** Notes a violation unless the condition holds. */
export type Check = (condition: boolean, promise: string, what: string) => void;

/** What the ledger says of a source. */
export type AuditedSource = {
  head: number | null;
  moves: number;
  rewrites: { n: number; forkBlock: number }[];
  anchors: { block: number; hash: string }[];
  /** Last blocks of segments that were complete, whatever they were merged into since. */
  ends: Set<number>;
};

/** What is held against the ledger. */
export type SyncEvidence = Pick<Evidence, "stored" | "storedAt" | "chains">;

/** All syncs of a ledger, their definitions and their sources, up to the event that is looked at. */
export class AuditedSyncs {
  readonly byId = new Map<string, AuditedSync>();
  readonly #violations: Violations;
  readonly #evidence: SyncEvidence;
  readonly #specs = new Map<string, SyncSpec>();
  readonly #lastSpecs = new Map<string, SyncSpec>();
  readonly #sources = new Map<string, AuditedSource>();
  #batch = 0;
  #applied = 0;

  constructor(evidence: SyncEvidence, violations: Violations) {
    this.#evidence = evidence;
    this.#violations = violations;
  }

  /** The user's database as it was when an event was recorded. */
  catchUp(pos: number): void {
    const { stored, storedAt } = this.#evidence;
    while ((storedAt[this.#batch]?.pos ?? Number.POSITIVE_INFINITY) < pos) this.#batch += 1;
    const end = storedAt[this.#batch]?.transactions ?? stored.length;
    for (; this.#applied < end; this.#applied++) {
      const transaction = stored[this.#applied];
      if (transaction !== undefined) this.byId.get(transaction.syncId)?.stored.apply(transaction);
    }
  }

  published({ data }: Audited<"DefinitionsPublished">): void {
    for (const { body } of data.specs) {
      if (body.kind !== "sync") continue;
      this.#specs.set(body.name, body);
      this.#lastSpecs.set(body.name, body);
    }
    for (const { kind, name } of data.removed) if (kind === "sync") this.#specs.delete(name);
  }

  /** The definition as it is now; undefined when it is gone. */
  spec(name: string): SyncSpec | undefined {
    return this.#specs.get(name);
  }

  /** The block that everything is wanted up to; null while nobody can know. */
  wantedTo(sync: AuditedSync, limit: "head" | "range" = "range"): { to: number } | null {
    const spec = this.#specs.get(sync.name);
    if (spec === undefined) return null;
    const fixed = sync.data.to_limit ?? spec.to;
    const { head, anchors } = this.source(sync.name, sync.data.source);
    if (head === null || !spec.has.head) {
      if (fixed === null || spec.has.head) return null;
      return { to: limit === "head" ? Number.MAX_SAFE_INTEGER : fixed };
    }
    const newest = spec.has.hash ? (anchors.at(-1)?.block ?? -1) : head;
    const safe = Math.min(head - spec.finality, newest);
    return { to: limit === "head" || fixed === null ? safe : Math.min(safe, fixed) };
  }

  /** Whether a block is the end of a fixed range. */
  isEnd(sync: AuditedSync, block: number): boolean {
    const fixed = sync.data.to_limit ?? this.#specs.get(sync.name)?.to ?? null;
    return fixed !== null && block >= fixed;
  }

  /** How many of its segments may run at once. */
  maxParallel(sync: AuditedSync): number {
    const spec = this.#lastSpecs.get(sync.name);
    if (spec?.splittable === false) return 1;
    return sync.maxParallel ?? spec?.max_parallel ?? 0;
  }

  chain(source: string): SimulatedChain {
    const chain = this.#evidence.chains.find(({ name }) => name === source);
    if (chain === undefined) throw new Error(`There is no chain ${source}.`);
    return chain;
  }

  source(name: string, source: string): AuditedSource {
    const key = `${name}\n${source}`;
    const known = this.#sources.get(key);
    if (known !== undefined) return known;
    const found: AuditedSource = {
      head: null,
      moves: 0,
      rewrites: [],
      anchors: [],
      ends: new Set(),
    };
    this.#sources.set(key, found);
    return found;
  }

  get(id: string): AuditedSync {
    const sync = this.byId.get(id);
    if (sync === undefined) throw new Error(`There is no sync ${id}.`);
    return sync;
  }

  checking(sync: AuditedSync, pos: number): Check {
    const name = `sync ${sync.name}@${sync.data.target_key} (${sync.data.sync_id}) at ${pos}`;
    return (condition, promise, what) =>
      this.#violations.check(condition, promise, `${name}: ${what}`);
  }
}
