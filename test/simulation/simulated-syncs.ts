import type { SegmentRow, SyncRow } from "../../src/work/sync/rows.ts";
import { TABLES } from "../../src/work/tables.ts";
import type { SyncSpec } from "../../src/work/sync/spec.ts";
import type { SyncCode } from "../../src/define/automation-context.ts";
import type { Reader, Store, Workspace } from "../../src/store/store.ts";
import { CHAINS, type SyncDrawing } from "./draw-syncs.ts";
import type { ClientWorld } from "./simulated-client.ts";
import { SimulatedChain } from "./simulated-chain.ts";
import { SimulatedDatabase } from "./simulated-database.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import { SimulatedSyncOperator } from "./simulated-sync-operator.ts";
import { simulatedSyncCode } from "./simulated-sync-code.ts";
import { SimulatedSyncer } from "./simulated-syncer.ts";
import type { WorkerWorld } from "./simulated-worker.ts";

/** What syncs need from the simulation around them. */
export type SyncsWorld = ClientWorld &
  Pick<WorkerWorld, "granted" | "recorded" | "unexpected" | "leaseMs" | "newId" | "isCalm"> & {
    isEnd: () => boolean;
    publish: () => Promise<void>;
  };

/** How much of the user's database there was when the ledger had come to a position. */
export type StoredAt = { pos: number; transactions: number };

/** The chains, the copies of them, and everybody who has to do with either. */
export class SimulatedSyncs {
  readonly chains: readonly SimulatedChain[];
  readonly database: SimulatedDatabase;
  readonly storedAt: StoredAt[] = [];
  readonly drawing: SyncDrawing;
  readonly #world: SyncsWorld;
  readonly #unsubscribe: () => void;
  readonly #syncers: SimulatedSyncer[] = [];

  constructor(world: SyncsWorld, store: Store) {
    this.#world = world;
    const { isCalm } = world;
    this.chains = CHAINS.map((name) => new SimulatedChain(name, { ...this.#forked(), isCalm }));
    this.database = new SimulatedDatabase(world.random.fork(), isCalm);
    this.drawing = { fixedTo: Math.min(...this.chains.map(({ floor }) => floor)), finalityMax: 12 };
    this.#unsubscribe = store.onAppend((_ws, pos) => {
      this.storedAt.push({ pos, transactions: this.database.log.length });
    });
  }

  /** Lets everybody begin; resolves when those who act by themselves have done their share. */
  async run(operations: number): Promise<void> {
    const { random } = this.#world;
    for (const chain of this.chains) chain.start();
    for (let count = random.integer(1, 3); count > 0; count--) this.#startSyncer();
    await this.#newOperator().run(2 * operations);
  }

  /** Faults have stopped, and the chains stand still. */
  settle(): void {
    for (const chain of this.chains) chain.finish();
  }

  /** Nobody hears of the store any more, and nobody is left. */
  close(): void {
    this.#unsubscribe();
    for (const syncer of this.#syncers) syncer.close();
  }

  /** What syncs have not come to although nothing is in their way; what was quarantined is retried. */
  async unfinished(store: Store, { ws }: Workspace): Promise<string[]> {
    const found = await store.read(ws, (reader) => this.#look(reader));
    for (const { sync_id, segment_index } of found.aside) {
      void this.#newOperator().retry(sync_id, segment_index);
    }
    return found.unfinished;
  }

  async #look(reader: Reader): Promise<{ unfinished: string[]; aside: SegmentRow[] }> {
    const all = { where: [], order: [], limit: 10_000 };
    const syncs = await reader.find({ ...all, table: TABLES.syncs });
    const unfinished: string[] = [];
    const aside: SegmentRow[] = [];
    for (const sync of syncs) {
      const spec = await specOf(reader, sync.name);
      if (spec === null || sync.state === "PAUSED" || sync.state === "REMOVED") continue;
      const own = [{ cell: "sync_id", is: "=", value: sync.sync_id }] as const;
      const found = await reader.find({
        ...all,
        where: own,
        table: TABLES.segments,
      });
      const open = found
        .filter(({ status }) => status !== "COMPLETE")
        .toSorted((a, b) => a.from_block - b.from_block);
      const [source] = await reader.load(TABLES.syncSources, [[sync.name, sync.source]]);
      const fault = this.#faultOf(sync, spec, open, source?.head ?? null);
      if (fault !== null) unfinished.push(`sync ${sync.name}@${sync.target_key} ${fault}`);
      aside.push(...open.filter(({ status }) => status === "QUARANTINED"));
    }
    return { unfinished, aside };
  }

  #faultOf(
    sync: SyncRow,
    spec: SyncSpec,
    open: readonly SegmentRow[],
    seen: number | null,
  ): string | null {
    const head = this.chains.find(({ name }) => name === sync.source)?.head ?? 0;
    const safe = head - spec.finality;
    const fixed = sync.to_limit ?? spec.to;
    const end = fixed === null ? safe : spec.has.head ? Math.min(safe, fixed) : fixed;
    // What was planned when it was safe may have to wait for a head that does not move any more.
    const waitsForHead = spec.has.head && (open[0]?.to_block ?? -1) > safe;
    // The last head is recorded when it is seen, also where it changes nothing.
    if (waitsForHead && seen !== null && seen < head) return `has not seen the head ${head}`;
    if (end < sync.from_block || waitsForHead) return null;
    const isWhole = sync.state === "COMPLETE" || sync.state === "FOLLOWING";
    if (!isWhole || sync.synced_to < end) return `is ${sync.status} at ${sync.synced_to} of ${end}`;
    const verifications = sync.verify_waiting + sync.verify_active;
    return verifications === 0 ? null : `has ${verifications} verifications`;
  }

  #newOperator(): SimulatedSyncOperator {
    const { fixedTo } = this.drawing;
    const known = (): string[] => [...new Set(this.database.log.map(({ syncId }) => syncId))];
    return new SimulatedSyncOperator({ ...this.#forked(), fixedTo, known }, "ida");
  }

  #startSyncer(): void {
    const { isCalm, isEnd } = this.#world;
    const random = this.#world.random.fork();
    const chain = (source: string): SimulatedChain => {
      const found = this.chains.find(({ name }) => name === source);
      if (found === undefined) throw new Error(`There is no chain ${source}.`);
      return found;
    };
    const { database } = this;
    const codeOf = (process: SimulatedProcess): SyncCode =>
      simulatedSyncCode({ random, database, chain, process });
    const syncer = new SimulatedSyncer({ ...this.#forked(), isCalm, isOver: isEnd, codeOf });
    this.#syncers.push(syncer);
    void syncer.run();
  }

  #forked(): SyncsWorld {
    return { ...this.#world, random: this.#world.random.fork() };
  }
}

/** The definition of a sync as it is now; null when it is gone. */
async function specOf(reader: Reader, name: string): Promise<SyncSpec | null> {
  const one = { order: [], limit: 1 };
  const [definition] = await reader.find({
    ...one,
    table: TABLES.definitions,
    where: [
      { cell: "kind", is: "=", value: "sync" },
      { cell: "name", is: "=", value: name },
    ],
  });
  if (definition === undefined) return null;
  const where = [{ cell: "spec_hash", is: "=", value: definition.spec_hash }] as const;
  const [spec] = await reader.find({ ...one, where, table: TABLES.specs });
  return spec?.body.kind === "sync" ? spec.body : null;
}
