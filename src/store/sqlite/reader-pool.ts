import { Connection } from "./connection.ts";

/** Snapshots that may be read at the same time; more wait. */
const READERS_MAX = 4;

/** A few read-only connections, each lent to one reader at a time. */
export class ReaderPool {
  readonly #path: string;
  readonly #idle: Connection[] = [];
  readonly #waiting: ((connection: Connection) => void)[] = [];
  #opened: Connection[] = [];
  #plain: Connection | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** A connection that is never in a transaction, for single look-ups. */
  get plain(): Connection {
    this.#plain ??= new Connection(this.#path, { readonly: true });
    return this.#plain;
  }

  async use<Result>(body: (connection: Connection) => Promise<Result>): Promise<Result> {
    const connection = await this.#take();
    try {
      return await body(connection);
    } finally {
      this.#giveBack(connection);
    }
  }

  /** Closes all connections, after the reads that are under way. */
  async close(): Promise<void> {
    this.#plain?.close();
    await Promise.all(this.#opened.map(() => this.#take()));
    for (const connection of this.#opened) connection.close();
    this.#opened = [];
  }

  async #take(): Promise<Connection> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#opened.length < READERS_MAX) {
      const connection = new Connection(this.#path, { readonly: true });
      this.#opened.push(connection);
      return connection;
    }
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #giveBack(connection: Connection): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(connection);
    else next(connection);
  }
}
