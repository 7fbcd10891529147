import { setImmediate as nextTurn } from "node:timers/promises";
import type { Damage, Store, Workspace } from "../../store/store.ts";
import { LedgerCheck, markIfCorrupt } from "./verify.ts";
import { bytesOf, ledgerPages } from "./refold.ts";
import { nodeHash } from "../config.ts";

/** How often it is looked whether there is something to check. */
const TURN_MS = 1_000;
/** What is read at once: a few milliseconds of the process. */
const PAGE_BYTES = 1 << 18;
/** Most of what was appended that one turn reads, far more than a server appends in that time. */
const TAIL_BYTES_MAX = 32 << 20;
/** Most that one turn reads of the ledger as a whole: a bounded part of a core and of the disk. */
const WALK_BYTES_MAX = 1 << 20;
/** How long to rest between two walks through the whole ledger. */
const REST_MS = 6 * 3_600_000;
/** How often it is noted how far the check has come: a start checks only what came since. */
const NOTE_MS = 10_000;

/** How the check of a ledger is doing. */
export type LedgerWatchStatus = {
  /** All events up to here were read and are in order. */
  checked_pos: number;
  /** How far the present walk through the whole ledger is. */
  walked_pos: number;
  /** Walks through the whole ledger that were completed by this process. */
  walks: number;
  /** Unknown events that say they are informational, and were passed over. */
  informational: number;
  damage: Damage | null;
};

/** What a watch is made of. */
export type LedgerWatchOptions = {
  store: Store;
  workspace: Workspace;
  /** Milliseconds of a clock that nobody sets. */
  elapsedMs: () => number;
  error: (fields: object, message: string) => void;
  warn: (fields: object, message: string) => void;
};

/**
 * Reads the ledger again while it is served: what is appended soon after it was, and over and over
 * the whole of it, at a bounded rate and without the workspace lock. What it finds damaged it marks,
 * so that nothing is appended any more, and says so.
 */
export class LedgerWatch {
  readonly #options: LedgerWatchOptions;
  #tail: LedgerCheck | null = null;
  #walk: LedgerCheck | null = null;
  #walkDueMs = 0;
  #notedPos = 0;
  #noteDueMs = 0;
  #walks = 0;
  #damage: Damage | null = null;
  /** Why the last turn checked nothing: it is said once, not every second. */
  #warned: string | null = null;
  #timer: NodeJS.Timeout | null = null;
  #turning: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: LedgerWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setTimeout(() => {
      void this.turn().finally(() => {
        if (!this.#stopped) this.start();
      });
    }, TURN_MS).unref();
  }

  /** Notes how far it has come, and ends. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#turning;
    // Only a note that saves the next start some checking: a store that is away does not matter.
    await this.#note().catch(() => undefined);
  }

  status(): LedgerWatchStatus {
    return {
      checked_pos: this.#tail?.pos ?? 0,
      walked_pos: this.#walk?.pos ?? 0,
      walks: this.#walks,
      informational: this.#tail?.informational ?? 0,
      damage: this.#damage,
    };
  }

  /** Checks some of what there is to check; resolves when that is done. */
  turn(): Promise<void> {
    this.#turning = this.#turning.then(async () => {
      try {
        await this.#turn();
        this.#warned = null;
      } catch (error) {
        await this.#failed(error);
      }
    });
    return this.#turning;
  }

  async #turn(): Promise<void> {
    const { store, workspace, elapsedMs } = this.#options;
    const { damage, verified, accepted } = await store.ledgerNotes(workspace.ws);
    if (damage === null) this.#damage = null;
    else return this.#found(damage);
    this.#tail ??= new LedgerCheck(workspace, nodeHash, { after: verified ?? undefined, accepted });
    if (await this.#advance(this.#tail, TAIL_BYTES_MAX)) await this.#checkEnd(this.#tail);
    if (elapsedMs() >= this.#noteDueMs) {
      this.#noteDueMs = elapsedMs() + NOTE_MS;
      await this.#note();
    }
    if (elapsedMs() < this.#walkDueMs) return;
    this.#walk ??= new LedgerCheck(workspace, nodeHash, { accepted });
    const isThrough = await this.#advance(this.#walk, WALK_BYTES_MAX, this.#tail.pos);
    if (!isThrough) return;
    // Nothing is missing at the end.
    this.#walk.checkHead(this.#tail);
    this.#walks += 1;
    this.#walk = null;
    this.#walkDueMs = elapsedMs() + REST_MS;
  }

  /** Reads on from where a check stands, so many bytes at most; answers whether it came to the end. */
  async #advance(check: LedgerCheck, bytesMax: number, through?: number): Promise<boolean> {
    const { store, workspace } = this.#options;
    const options = { pageBytes: PAGE_BYTES, ...(through === undefined ? {} : { through }) };
    let bytes = 0;
    for await (const { events } of ledgerPages(store, workspace.ws, check.pos, options)) {
      for (const event of events) check.check(event);
      bytes += bytesOf(events);
      if (bytes >= bytesMax || this.#stopped) return false;
      await nextTurn();
    }
    return true;
  }

  /** Checks that the ledger ends where its head says, unless more has come since. */
  async #checkEnd(tail: LedgerCheck): Promise<void> {
    const { store, workspace } = this.#options;
    const { head, next } = await store.read(workspace.ws, async (reader) => ({
      head: await reader.head(),
      next: (await reader.events({ after: tail.pos, limit: 1 }))[0],
    }));
    if (next !== undefined && next.pos <= head.pos) return;
    if (next !== undefined) tail.check(next);
    tail.checkHead(head);
  }

  async #note(): Promise<void> {
    const tail = this.#tail;
    if (tail === null || tail.pos <= this.#notedPos || this.#damage !== null) return;
    await this.#options.store.saveVerified(this.#options.workspace.ws, tail.note);
    this.#notedPos = tail.pos;
  }

  async #failed(error: unknown): Promise<void> {
    const { store, workspace } = this.#options;
    try {
      const damage = await markIfCorrupt(store, workspace, error);
      if (damage !== null) this.#found(damage);
      else this.#warn(error, "the ledger could not be checked");
    } catch (failure) {
      this.#warn(failure, "a damaged ledger could not be marked");
    }
  }

  #warn(error: unknown, sentence: string): void {
    const reason = reasonOf(error);
    if (reason !== this.#warned) this.#options.warn({ reason }, sentence);
    this.#warned = reason;
  }

  #found(damage: Damage): void {
    if (this.#damage?.reason !== damage.reason) {
      const { pos, table } = damage;
      this.#options.error({ pos, table, reason: damage.reason }, "the ledger is damaged");
    }
    this.#damage = damage;
    // Whatever a person decides, what follows is checked anew.
    this.#tail = null;
    this.#walk = null;
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
