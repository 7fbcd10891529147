import Database from "better-sqlite3";
import { sourceLagging } from "../../src/define/errors.ts";
import type { SyncCode, SyncRange } from "../../src/define/automation-context.ts";

const TABLES = `
  create table if not exists blocks (block integer primary key, hash text not null);
  create table if not exists copy (block integer primary key, hash text not null);
  create table if not exists asked (id integer primary key, first integer, last integer, undone integer);
`;

/** A chain in a database file, and the copy of it that a sync keeps in the same file. */
export class ChainFile {
  readonly #db: Database.Database;

  constructor(path: string) {
    this.#db = new Database(path);
    this.#db.pragma("journal_mode = wal");
    this.#db.exec(TABLES);
  }

  get head(): number {
    return this.#db.prepare("select max(block) from blocks").pluck().get() as number;
  }

  /** Adds blocks at the end. */
  grow(count: number, salt = "a"): void {
    const next = (this.#db.prepare("select count(*) from blocks").pluck().get() as number) || 0;
    const insert = this.#db.prepare("insert into blocks values (?, ?)");
    this.#db.transaction(() => {
      for (let block = next; block < next + count; block++) insert.run(block, `${salt}${block}`);
    })();
  }

  /** Rewrites everything above a block, and goes on from there. */
  rewrite(fork: number, length: number, salt: string): void {
    this.#db.prepare("delete from blocks where block > ?").run(fork);
    this.grow(length, salt);
  }

  /** Blocks up to the last one whose copy is missing or is not what the chain has. */
  faults(to: number): number[] {
    const wrong = `select b.block from blocks b left join copy c on c.block = b.block
      where b.block <= ? and (c.hash is null or c.hash <> b.hash)`;
    return this.#db.prepare(wrong).pluck().all(to) as number[];
  }

  /** What is stored that the chain does not have. */
  strangers(): number {
    const strange = "select count(*) from copy where block not in (select block from blocks)";
    return this.#db.prepare(strange).pluck().get() as number;
  }

  asked(): { first: number; last: number; undone: number }[] {
    const all = "select first, last, undone from asked order by id";
    return this.#db.prepare(all).all() as { first: number; last: number; undone: number }[];
  }

  /** What a function fetch does: reads the range and stores it, in one transaction. */
  copy({ from, to, undo }: SyncRange): number {
    this.#db
      .prepare("insert into asked (first, last, undone) values (?, ?, ?)")
      .run(from, to, undo === null ? 0 : 1);
    if (to > this.head) throw sourceLagging(`There is no block ${to} yet.`);
    return this.#db.transaction(() => {
      if (undo !== null) {
        this.#db.prepare("delete from copy where block between ? and ?").run(undo.from, undo.to);
      }
      return this.#db
        .prepare(
          `insert into copy select block, hash from blocks where block between ? and ?
           on conflict (block) do update set hash = excluded.hash`,
        )
        .run(from, to).changes;
    })();
  }

  damage(block: number): void {
    this.#db.prepare("delete from copy where block = ?").run(block);
  }

  hash(block: number): string {
    const found = this.#db.prepare("select hash from blocks where block = ?").pluck().get(block);
    if (typeof found !== "string") throw sourceLagging(`There is no block ${block} yet.`);
    return found;
  }

  /** The functions of a sync that copies the chain. */
  functions(): { [Name in keyof SyncCode]-?: NonNullable<SyncCode[Name]> } {
    return {
      fetch: async (range) => ({ rows: this.copy(range) }),
      head: async () => this.head,
      hash: async (block) => this.hash(block),
      verify: async ({ from, to }) => !this.faults(to).some((block) => block >= from),
      verifyEachSegment: true,
    };
  }

  close(): void {
    this.#db.close();
  }
}
