import { createClient } from "../../../src/client/client.ts";
import { PawlError } from "../../../src/kernel/errors.ts";
import { Random } from "../../simulation/random.ts";
import { type LiveWriter, openLiveWriter, RolledBack, type WriteKind } from "./live-writer.ts";
import type { Stock } from "./live-tables.ts";
import type { LiveShards } from "./project/live-settings.ts";
import { type BookedAccount, TenantBook, type ToldBook } from "./tenant-book.ts";

/** What to write, how often and how. */
export type LoadOptions = Stock & {
  url: string;
  shards: LiveShards;
  writesPerSecond: number;
  seed: number;
  /** How long the router waits for a cutover. */
  waitMs: number;
  /** Writes of one tenant that may be under way: those of a held fence must not pile up. */
  underWayMax: number;
  /** Shares of writes, in PostgreSQL: in REPEATABLE READ, taken back, and left open for a while. */
  repeatableRead: number;
  rolledBack: number;
  long: number;
  longMs: number;
};

/** What is said of a load so far; the books only when it has stopped. */
export type LoadSaid = {
  acknowledged: number;
  reads: number;
  /** Reads that did not see what had been acknowledged before. */
  staleReads: string[];
  /** Why writes failed or were refused, and how often; nothing of them has happened. */
  failed: Record<string, number>;
  /** In ms. */
  latency: { median: number; p99: number; longest: number };
  books: ToldBook[];
};

const TURN_MS = 5;
const SHARE_SHARED = 0.2;
const SHARE_READS = 0.1;

/** Writes for tenants and keeps book of what was acknowledged. */
export class LiveLoad {
  readonly #options: LoadOptions;
  readonly #random: Random;
  readonly #books: TenantBook[];
  readonly #writer: LiveWriter;
  readonly #underWay = new Set<Promise<void>>();
  readonly #latencies: number[] = [];
  readonly #failed = new Map<string, number>();
  readonly #staleReads: string[] = [];
  #reads = 0;
  #begun = 0;
  #startedAt = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
    this.#books = options.tenants.map((tenant) => new TenantBook(tenant, options));
    // The server may be killed at any time, and is there again soon.
    const retryDelaysMs = Array.from({ length: 100 }, () => 200);
    const client = createClient({ url: options.url, retryDelaysMs });
    this.#writer = openLiveWriter(options.shards, { client, waitMs: options.waitMs });
  }

  start(): void {
    this.#startedAt = performance.now();
    this.#timer = setInterval(() => this.#catchUp(), TURN_MS);
  }

  /** Begins nothing more, waits for what is under way, and says what has to be there. */
  async stop(): Promise<LoadSaid> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await Promise.all(this.#underWay);
    await this.#writer.close();
    return { ...this.said(), books: this.#books.map((book) => book.told()) };
  }

  said(): LoadSaid {
    const sorted = this.#latencies.toSorted((one, other) => one - other);
    const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
    return {
      acknowledged: this.#latencies.length,
      reads: this.#reads,
      staleReads: this.#staleReads,
      failed: Object.fromEntries(this.#failed),
      latency: { median: at(0.5), p99: at(0.99), longest: at(1) },
      books: [],
    };
  }

  #catchUp(): void {
    const { writesPerSecond, underWayMax } = this.#options;
    const due = ((performance.now() - this.#startedAt) / 1_000) * writesPerSecond;
    for (; this.#begun < due; this.#begun++) {
      const book = this.#random.pick(this.#books);
      if (book.underWay >= underWayMax) continue;
      book.underWay++;
      const doing = this.#do(book).finally(() => {
        book.underWay--;
        this.#underWay.delete(doing);
      });
      this.#underWay.add(doing);
    }
  }

  async #do(book: TenantBook): Promise<void> {
    const free = book.accounts.filter(({ isBusy, isUnknown }) => !isBusy && !isUnknown);
    if (free.length === 0 || this.#random.chance(SHARE_SHARED)) return this.#addShared(book);
    const account = this.#random.pick(free);
    account.isBusy = true;
    try {
      if (this.#random.chance(SHARE_READS)) await this.#read(book, account);
      else await this.#write(book, account);
    } finally {
      account.isBusy = false;
    }
  }

  async #addShared(book: TenantBook): Promise<void> {
    const outcome = await this.#timed(book, () =>
      this.#writer.addShared(book.tenant, this.#kind()),
    );
    if (outcome === "done") book.shared++;
    if (outcome === "unknown") book.sharedPerhaps++;
  }

  async #read(book: TenantBook, account: BookedAccount): Promise<void> {
    try {
      const rows = await this.#writer.look(book.tenant, account.account);
      this.#reads++;
      if (rows.n === account.n && rows.entries === account.entries.size) return;
      this.#staleReads.push(
        `${book.tenant}/${account.account}: ${rows.n} and ${rows.entries} entries, not ` +
          `${account.n} and ${account.entries.size}`,
      );
    } catch (error) {
      this.#fails(error);
    }
  }

  async #write(book: TenantBook, account: BookedAccount): Promise<void> {
    const { tenant } = book;
    const { account: id, entries } = account;
    const kind = this.#kind();
    const note = this.#random.chance(0.1) ? null : `note ${this.#begun}`;
    const deed = entries.size === 0 ? 0 : this.#random.next();
    const [number = 0] = entries.size === 0 ? [] : this.#random.pick([...entries]);
    let outcome: Outcome;
    if (deed < 0.6) {
      outcome = await this.#timed(book, () =>
        this.#writer.add(tenant, id, account.n + 1, note, kind),
      );
      if (outcome === "done") entries.set(++account.n, note);
    } else if (deed < 0.8) {
      outcome = await this.#timed(book, () => this.#writer.note(tenant, id, number, note, kind));
      if (outcome === "done") entries.set(number, note);
    } else if (deed < 0.9) {
      outcome = await this.#timed(book, () => this.#writer.forget(tenant, id, number, kind));
      if (outcome === "done") entries.delete(number);
    } else {
      // A changed key.
      outcome = await this.#timed(book, () => this.#writer.renumber(tenant, id, number, kind));
      if (outcome === "done") {
        const kept = entries.get(number) ?? null;
        entries.delete(number);
        entries.set(-number, kept);
      }
    }
    if (outcome === "unknown") account.isUnknown = true;
  }

  async #timed(book: TenantBook, write: () => Promise<void>): Promise<Outcome> {
    const begunAt = performance.now();
    try {
      await write();
      book.acknowledged++;
      this.#latencies.push(performance.now() - begunAt);
      return "done";
    } catch (error) {
      if (error instanceof RolledBack) return "nothing";
      this.#fails(error);
      return error instanceof PawlError && error.code === "COMMIT_UNKNOWN" ? "unknown" : "nothing";
    }
  }

  #fails(error: unknown): void {
    const { code, message } = error as { code?: unknown; message?: unknown };
    const why = String(code ?? message);
    this.#failed.set(why, (this.#failed.get(why) ?? 0) + 1);
  }

  #kind(): WriteKind {
    const { repeatableRead, rolledBack, long, longMs } = this.#options;
    return {
      isRepeatableRead: this.#random.chance(repeatableRead),
      isRolledBack: this.#random.chance(rolledBack),
      openMs: this.#random.chance(long) ? longMs : 0,
    };
  }
}

type Outcome = "done" | "nothing" | "unknown";
