import pg from "pg";
import type { AppendListeners } from "../store-lists.ts";

const RECONNECT_MS = 1_000;
const HEADS = "select ws, pos from pawl.heads where pos > 0";

/**
 * Hears of appends by other processes over a connection of its own. After a lost connection it
 * reads all heads, so that what was missed is heard late, but heard.
 */
export class AppendListener {
  readonly #url: string;
  readonly #listeners: AppendListeners;
  #client: pg.Client | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(url: string, listeners: AppendListeners) {
    this.#url = url;
    this.#listeners = listeners;
  }

  /** Begins to listen, unless it does already. */
  start(): void {
    if (this.#client === null && this.#retryTimer === null && !this.#closed) void this.#connect();
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    await this.#client?.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      keepAlive: true,
      application_name: "pawl listener",
    });
    this.#client = client;
    client.on("error", () => undefined);
    client.on("end", () => this.#retry(client));
    client.on("notification", ({ payload }) => {
      const [ws, pos] = (payload ?? "").split(" ").map(Number);
      if (ws !== undefined && pos !== undefined) this.#listeners.appended(ws, pos);
    });
    try {
      await client.connect();
      await client.query("listen pawl_appended");
      const heads = await client.query<[string, string]>({ text: HEADS, rowMode: "array" });
      for (const [ws, pos] of heads.rows) this.#listeners.appended(Number(ws), Number(pos));
    } catch {
      await client.end().catch(() => undefined);
      this.#retry(client);
    }
  }

  #retry(client: pg.Client): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = null;
      this.start();
    }, RECONNECT_MS).unref();
  }
}
