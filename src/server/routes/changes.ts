import type { Call, Handler } from "../call.ts";
import { type Change, ChangeFeed } from "../change-feed.ts";
import type { Engine } from "../../engine/engine.ts";
import { HEARTBEAT_MS, type MessageSource, messageStream } from "../message-stream.ts";

const feeds = new WeakMap<Engine, ChangeFeed>();

/** The feed of a workspace: one for all who follow it. */
function feedOf(engine: Engine): ChangeFeed {
  let feed = feeds.get(engine);
  if (feed === undefined) {
    feed = new ChangeFeed(engine);
    feeds.set(engine, feed);
  }
  return feed;
}

/** Hands on changes; those that come while the client is not reading are told as one. */
class ChangeSource implements MessageSource {
  readonly #signal: AbortSignal;
  readonly #types = new Set<string>();
  #pos = 0;
  #wake: (() => void) | null = null;
  #stop: Promise<() => void>;

  constructor(call: Call<"followChanges">) {
    this.#signal = call.signal();
    this.#stop = feedOf(call.engine).listen((change) => this.#take(change));
    this.#signal.addEventListener("abort", this.#stopWaiting);
  }

  /** Resolves when nothing that comes from now on is missed. */
  async listening(): Promise<void> {
    await this.#stop;
  }

  async next(): Promise<string | null> {
    if (this.#types.size === 0 && !this.#signal.aborted) await this.#wait();
    if (this.#signal.aborted) return null;
    if (this.#types.size === 0) return ": still here\n\n";
    const message = { pos: this.#pos, types: [...this.#types] };
    this.#types.clear();
    return `id: ${message.pos}\ndata: ${JSON.stringify(message)}\n\n`;
  }

  close(): void {
    this.#signal.removeEventListener("abort", this.#stopWaiting);
    this.#stopWaiting();
    void this.#stop.then((stop) => stop()).catch(() => undefined);
  }

  readonly #stopWaiting = (): void => this.#wake?.();

  #take({ pos, types }: Change): void {
    this.#pos = pos;
    for (const type of types) this.#types.add(type);
    this.#wake?.();
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), HEARTBEAT_MS);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }
}

/** What can be followed besides the events themselves. */
export const CHANGE_HANDLERS: { followChanges: Handler<"followChanges"> } = {
  async followChanges(call) {
    let source: ChangeSource | null = null;
    const response = messageStream(call, () => {
      source = new ChangeSource(call);
      return source;
    });
    try {
      // The page asks for everything once it is told that the stream is open.
      await (source as ChangeSource | null)?.listening();
    } catch (error) {
      await response.body?.cancel();
      throw error;
    }
    return response;
  },
};
