import { describe, expect, test } from "vitest";
import { PawlError } from "../../src/kernel/errors.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { Random } from "./random.ts";
import { SimulatedClient } from "./simulated-client.ts";
import type { SimulatedNetwork } from "./simulated-network.ts";
import { SimulatedTime } from "./simulated-time.ts";

// Goal: the one who checks answers under idempotency keys takes a copy that overtook its original for
// what it is, and nothing else. Method: a network of which each test says what it does with a question.

type Submitted = Awaited<ReturnType<Engine["submit"]>>;

const FIRST = { result: 1, replayed: null, event_ids: [] } as unknown as Submitted;
const AGAIN = { result: 1, replayed: { answer: 1 }, event_ids: [] } as unknown as Submitted;

/** An engine that gives these answers, one after the other. */
function engineOf(...answers: (Submitted | Error)[]): Engine {
  const submit = async (): Promise<Submitted> => {
    const answer = answers.shift();
    if (answer === undefined || answer instanceof Error)
      throw answer ?? new Error("no answer left");
    return answer;
  };
  return { submit } as unknown as Engine;
}

type Question = (engine: Engine) => Promise<unknown>;

/** A client whose questions go through `ask`, and the promises that it found broken. */
function clientOf(ask: (question: Question) => Promise<unknown>) {
  const broken: string[] = [];
  const client = new SimulatedClient(
    {
      time: new SimulatedTime(0),
      random: new Random(1),
      network: { ask } as unknown as SimulatedNetwork,
      isOver: () => false,
      acknowledged: () => undefined,
      broken: (promise) => broken.push(promise),
    },
    "ann",
  );
  const send = (body = {}): Promise<unknown> =>
    client.idempotent("create", "key", body, () => ({ events: [], result: 1 }));
  return { send, broken };
}

const REFUSED = new PawlError("BACKFILL_OVERLAPS", "not now");

describe("an answer under an idempotency key", () => {
  test("I6: may be that of a copy which overtook its original", async () => {
    const engine = engineOf(FIRST, AGAIN);
    const { send, broken } = clientOf(async (question) => {
      await question(engine);
      return question(engine);
    });
    await send();
    expect(broken).toEqual([]);
  });

  test("I6: is none of a request that was refused", async () => {
    const engine = engineOf(REFUSED, AGAIN);
    const { send, broken } = clientOf((question) => question(engine));
    await send();
    await send();
    expect(broken).toEqual(["I6"]);
  });

  test("I6: is not there before anybody asked", async () => {
    const engine = engineOf(AGAIN);
    const { send, broken } = clientOf((question) => question(engine));
    await send();
    expect(broken).toEqual(["I6"]);
  });

  test("I6: a key is not used up by a request that was refused", async () => {
    const engine = engineOf(REFUSED, new PawlError("IDEMPOTENCY_KEY_REUSED", "another body"));
    const { send, broken } = clientOf((question) => question(engine));
    await send();
    await send({ other: true });
    expect(broken).toEqual(["I6"]);
  });

  test("I5: is the first one, and never a second effect", async () => {
    const engine = engineOf(FIRST, FIRST);
    const { send, broken } = clientOf((question) => question(engine));
    await send();
    await send();
    expect(broken).toEqual(["I5"]);
  });
});
