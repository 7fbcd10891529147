import { describe, expect, test } from "vitest";
import { PawlError } from "../../kernel/errors.ts";
import { type Route, RouteBook } from "./create-router.ts";

const route = (epoch: number, shard = "a"): Route => ({ tenant: "acme", shard, epoch });

/** A book whose server gives these answers in turn. */
function bookOf(answers: (Route | PawlError)[], refreshMs = 60_000) {
  const given: Promise<unknown>[] = [];
  const load = async (): Promise<Route> => {
    const answer = answers.shift() ?? new PawlError("SERVER_UNREACHABLE", "It is away.");
    if (answer instanceof PawlError) throw answer;
    return answer;
  };
  const book = new RouteBook((): Promise<Route> => {
    const loading = load();
    given.push(loading.catch(() => undefined));
    return loading;
  }, refreshMs);
  return { book, settled: () => Promise.all(given) };
}

const stale = (details: Record<string, unknown>) =>
  new PawlError("EPOCH_STALE", "It has moved.", { details });

describe("a book of routes", () => {
  test("asks once for all who ask at the same time, and keeps the answer", async () => {
    const { book } = bookOf([route(1)]);
    const both = await Promise.all([book.routeOf("acme"), book.routeOf("acme")]);
    expect(both).toEqual([route(1), route(1)]);
    expect(await book.routeOf("acme")).toEqual(route(1));
  });

  test("keeps the newer of two routes", () => {
    const { book } = bookOf([]);
    expect(book.learn(route(3, "b"))).toEqual(route(3, "b"));
    expect(book.learn(route(2, "a"))).toEqual(route(3, "b"));
    expect(book.learn(route(4, "c"))).toEqual(route(4, "c"));
  });

  test("asks again beside the work for a route that has got old", async () => {
    const { book, settled } = bookOf([route(1), route(2, "b")], 0);
    await book.routeOf("acme");
    expect(await book.routeOf("acme")).toEqual(route(1));
    await settled();
    expect(await book.routeOf("acme")).toEqual(route(2, "b"));
    await settled();
    expect(await book.routeOf("acme")).toEqual(route(2, "b"));
  });

  test("takes the route from the refusal when that is newer, without asking", async () => {
    const { book } = bookOf([]);
    const refusal = stale({ shard: "b", epoch: 2 });
    expect(await book.routeAfter(route(1), refusal)).toEqual(route(2, "b"));
    expect(await book.routeOf("acme")).toEqual(route(2, "b"));
  });

  test("takes what another transaction has learnt meanwhile", async () => {
    const { book } = bookOf([]);
    book.learn(route(3, "c"));
    const refusal = stale({ shard: "b", epoch: 2 });
    expect(await book.routeAfter(route(1), refusal)).toEqual(route(3, "c"));
  });

  test.each([{ shard: null, epoch: 2 }, { shard: "b", epoch: 1 }, { shard: "b" }])(
    "asks the server when the refusal says nothing newer: %o",
    async (details) => {
      const { book } = bookOf([route(2, "c")]);
      expect(await book.routeAfter(route(1), stale(details))).toEqual(route(2, "c"));
    },
  );

  test("stays with its route while the server is away, and says anything else", async () => {
    const { book } = bookOf([
      new PawlError("SERVER_UNREACHABLE", "It is away."),
      new PawlError("UNAUTHORIZED", "The token is not valid."),
    ]);
    expect(await book.routeAfter(route(1), stale({}))).toEqual(route(1));
    await expect(book.routeAfter(route(1), stale({}))).rejects.toMatchObject({
      code: "UNAUTHORIZED",
    });
  });
});
