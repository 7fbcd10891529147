import { expect, test } from "vitest";
import type { Secret } from "../../src/store/store.ts";
import { NOON } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const at = (hour: number): string => NOON.replace("T12", `T${hour}`);

function secret(given: Partial<Secret>): Secret {
  return {
    kind: "sensor",
    id: "s1",
    secret: "first",
    created_at: NOON,
    expires_at: null,
    ...given,
  };
}

/** Secrets, and how one takes over from another. */
export function secretCases({ durable, place, store, ws }: Suite): void {
  const secrets = (kind: Secret["kind"] = "sensor", id = "s1"): Promise<Secret[]> =>
    store().secrets(ws(), kind, id);

  test("a new secret lets the others expire, but none later than it would have", async () => {
    expect(await secrets()).toEqual([]);
    const first = secret({});
    await store().addSecret(ws(), first, at(13));
    expect(await secrets()).toEqual([first]);

    const second = secret({ secret: "a second", created_at: at(14) });
    await store().addSecret(ws(), second, at(15));
    expect(await secrets()).toEqual([second, { ...first, expires_at: at(15) }]);

    const third = secret({ secret: "third", created_at: at(16) });
    await store().addSecret(ws(), third, at(17));
    expect(await secrets()).toEqual([
      third,
      { ...second, expires_at: at(17) },
      { ...first, expires_at: at(15) },
    ]);

    const fourth = secret({ secret: "fourth", created_at: at(18) });
    await store().addSecret(ws(), fourth, at(12));
    expect(await secrets()).toEqual([
      fourth,
      { ...third, expires_at: at(12) },
      { ...second, expires_at: at(12) },
      { ...first, expires_at: at(12) },
    ]);
  });

  test("a secret that comes twice is there once, and is the current one", async () => {
    const first = secret({});
    const second = secret({ secret: "second", created_at: at(13) });
    for (const each of [first, first, second, second]) await store().addSecret(ws(), each, at(14));
    expect(await secrets()).toEqual([second, { ...first, expires_at: at(14) }]);
    const again = { ...first, created_at: at(15) };
    await store().addSecret(ws(), again, at(16));
    expect(await secrets()).toEqual([again, { ...second, expires_at: at(16) }]);
  });

  test("the current secret comes first, even if it was made in the same millisecond", async () => {
    for (const text of ["b", "c", "a", "d", "b2"]) {
      await store().addSecret(ws(), secret({ secret: text }), at(13));
      expect((await secrets())[0]).toEqual(secret({ secret: text }));
    }
  });

  test("keeps the secrets of kinds, subjects and workspaces apart", async () => {
    const other = await store().workspace("acme", "other");
    await store().addSecret(ws(), secret({}), at(13));
    await store().addSecret(ws(), secret({ kind: "webhook", secret: "second" }), at(13));
    await store().addSecret(ws(), secret({ id: "s2", secret: "third" }), at(13));
    await store().addSecret(other.ws, secret({ secret: "fourth" }), at(13));
    expect(await secrets()).toEqual([secret({})]);
    expect(await secrets("webhook")).toEqual([secret({ kind: "webhook", secret: "second" })]);
    expect(await secrets("sensor", "s2")).toEqual([secret({ id: "s2", secret: "third" })]);
    expect(await secrets("webhook", "s2")).toEqual([]);
    expect(await store().secrets(other.ws, "sensor", "s1")).toEqual([secret({ secret: "fourth" })]);
  });

  test.runIf(durable)("of secrets that come at once from two servers one is current", async () => {
    const other = await place().open();
    try {
      const added = Array.from({ length: 20 }, (_, index) => {
        const server = index % 2 === 0 ? store() : other;
        return server.addSecret(ws(), secret({ secret: `secret ${index}` }), at(13));
      });
      await Promise.all(added);
      const kept = await other.secrets(ws(), "sensor", "s1");
      expect(kept).toHaveLength(20);
      expect(kept.filter(({ expires_at }) => expires_at === null)).toHaveLength(1);
    } finally {
      await other.close();
    }
  });
}
