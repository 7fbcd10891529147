import type { Decide } from "../../src/work/decision.ts";
import { canonicalJson, type Json } from "../../src/kernel/canonical.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { nodeHash } from "../../src/engine/config.ts";
import type { Random } from "./random.ts";
import { ConnectionLost } from "./simulated-server.ts";
import type { SimulatedNetwork } from "./simulated-network.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** A command that a server said was recorded. */
export type Acknowledged = {
  operation: string;
  event_ids: readonly string[];
  /** The state version that the command expected. */
  expected: number | null;
};

/** What everybody who sends commands needs from the simulation around them. */
export type ClientWorld = {
  time: SimulatedTime;
  random: Random;
  network: SimulatedNetwork;
  isOver: () => boolean;
  acknowledged: (command: Acknowledged) => void;
  /** An answer that breaks a promise. */
  broken: (promise: string, what: string) => void;
};

/** What is known of an idempotency key. */
type Key = {
  body: string | null;
  answer: string | null;
  /** Requests that reached a server, copies included, and were not refused there: each may have its effect. */
  open: number;
};

/** Sends the commands of one person, and checks that the answers keep what was promised. */
export class SimulatedClient {
  readonly #world: ClientWorld;
  readonly #principal: string;
  /** Idempotency keys this person has used, by scope and key. */
  readonly #keys = new Map<string, Key>();

  constructor(world: ClientWorld, principal: string) {
    this.#world = world;
    this.#principal = principal;
  }

  /** Submits once; null when it was refused or no answer came. */
  async submit<Result>(
    operation: string,
    decide: Decide<Result>,
    expected: number | null,
  ): Promise<Result | null> {
    const { network, acknowledged } = this.#world;
    const options = { actor: { principal: this.#principal, token_id: null }, correlationId: "c" };
    try {
      const { result, event_ids } = await network.ask((engine) => engine.submit(decide, options));
      acknowledged({ operation, event_ids, expected });
      return result;
    } catch (error) {
      return this.checkError(error);
    }
  }

  /** Submits under a key, again and again until an answer comes, and checks that it stays the same. */
  async idempotent<Result>(
    operation: string,
    key: string,
    input: object,
    decide: Decide<Result>,
  ): Promise<unknown> {
    const { network, acknowledged, time, random, isOver } = this.#world;
    const scope = `${this.#principal} ${operation}`;
    const body = canonicalJson(input);
    const known = this.#keys.get(`${scope} ${key}`) ?? { body: null, answer: null, open: 0 };
    this.#keys.set(`${scope} ${key}`, known);
    const idempotency = {
      scope,
      key,
      bodyHash: nodeHash.sha256(body),
      respond: ({ result }: { result: Result }) => ({ status: 200, answer: result as Json }),
    };
    const options = {
      actor: { principal: this.#principal, token_id: null },
      correlationId: "c",
      idempotency,
    };
    for (let attempt = 0; attempt < 4 && !isOver(); attempt++) {
      try {
        const answer = await network.ask((engine) =>
          counted(known, engine.submit(decide, options)),
        );
        acknowledged({ operation, event_ids: answer.event_ids, expected: null });
        const result = answer.replayed === null ? answer.result : answer.replayed.answer;
        this.#checkReplay(known, body, canonicalJson(result), answer.replayed !== null);
        return result;
      } catch (error) {
        if (this.#isRefused(error, known, body)) return null;
        await time.sleep(random.integer(10, 3_000));
      }
    }
    return null;
  }

  #checkReplay(known: Key, body: string, answer: string, isReplayed: boolean): void {
    const { broken } = this.#world;
    if (known.answer !== null && known.body === body && known.answer !== answer) {
      broken("I5", `the same request was answered ${known.answer}, then ${answer}`);
    }
    if (known.answer !== null && !isReplayed) broken("I5", `a key had its effect twice: ${answer}`);
    // This request is one of those that are open: another must have had the effect.
    if (isReplayed && known.open < 2) {
      broken("I6", "a key that was never accepted has an answer");
    }
    known.answer = answer;
    known.body = body;
  }

  /** Whether the server said no; anything else leaves open what happened. */
  #isRefused(error: unknown, known: Key, body: string): boolean {
    if (!isNo(error)) {
      this.checkError(error);
      return false;
    }
    if (error.code === "IDEMPOTENCY_KEY_REUSED") {
      const explained = known.answer !== null ? known.body !== body : known.open > 0;
      if (!explained) this.#world.broken("I6", "a refused request has used up its key");
      return true;
    }
    this.checkError(error);
    return true;
  }

  /** Notes an error that no misfortune explains; answers null for a request without a result. */
  checkError(error: unknown): null {
    if (error instanceof ConnectionLost) return null;
    if (error instanceof PawlError && error.code !== "INTERNAL") return null;
    this.#world.broken("I11", `a request failed inside: ${String(error)}`);
    return null;
  }
}

/** The answer to a request, which stays open unless it is refused. */
async function counted<Answer>(known: Key, asked: Promise<Answer>): Promise<Answer> {
  known.open += 1;
  try {
    return await asked;
  } catch (error) {
    if (isNo(error)) known.open -= 1;
    throw error;
  }
}

/** Whether the server said no, and did nothing. */
function isNo(error: unknown): error is PawlError {
  return error instanceof PawlError && error.code !== "STORE_UNAVAILABLE";
}
