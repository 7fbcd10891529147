import { expect, test } from "vitest";
import { armed, countOf, enrol, GUARD, insertItems } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

const PATIENT = { waitMs: 20_000, holdMs: 60_000 };

/** Fences: their states, their expiry, and waiting for writes under way. */
export function fenceCases(pair: () => ShardPair): void {
  const open = async (...tenants: string[]): Promise<void> => {
    await pair().source.setFences(
      GUARD,
      tenants.map((tenant) => ({ tenant, epoch: 3, state: "open" as const, shard: null })),
    );
  };

  test("sets, shows and drops fences", async () => {
    const { source } = pair();
    await enrol(source);
    await source.setFences(GUARD, [
      { tenant: "a", epoch: 1, state: "open", shard: null },
      { tenant: "b", epoch: 2, state: "moved", shard: "other" },
    ]);
    expect(await source.fences(["a", "b", "c"])).toEqual([
      { tenant: "a", epoch: 1, state: "open", shard: null, until: null },
      { tenant: "b", epoch: 2, state: "moved", shard: "other", until: null },
    ]);
    await source.setFences(GUARD, [{ tenant: "a", epoch: 4, state: "held", shard: null }]);
    expect(await source.fences(["a"])).toMatchObject([{ epoch: 4, state: "held" }]);
    await source.dropFences(GUARD, ["a", "b", "never"]);
    await source.dropFences(GUARD, ["a"]);
    expect(await source.fences(["a", "b"])).toEqual([]);
    expect(await source.fences([])).toEqual([]);
  });

  test("closes fences for a time and makes them held", async () => {
    const { source } = pair();
    await enrol(source);
    await open("a", "b");
    await source.closeFences(GUARD, ["a", "b"], PATIENT);
    const closed = await source.fences(["a", "b"]);
    expect(closed).toMatchObject([
      { tenant: "a", epoch: 3, state: "closed" },
      { tenant: "b", epoch: 3, state: "closed" },
    ]);
    expect(Date.parse(closed[0]?.until ?? "")).toBeGreaterThan(Date.now());
    await source.closeFences(GUARD, ["a", "b"], PATIENT);
    await source.holdFences(GUARD, ["a", "b"]);
    expect(await source.fences(["a"])).toMatchObject([{ state: "held", until: null }]);
    await source.holdFences(GUARD, ["a", "b"]);
  });

  test("I55: takes a closed fence for open once its time has passed", async () => {
    const { source } = pair();
    await armed(pair(), "items");
    await open("a");
    await source.closeFences(GUARD, ["a"], { waitMs: 20_000, holdMs: 1 });
    await expect
      .poll(() =>
        pair()
          .write("source", "a", 3, insertItems("a", 1))
          .then(
            () => true,
            () => false,
          ),
      )
      .toBe(true);
    const expired = { code: "FENCE_EXPIRED" };
    await expect(source.holdFences(GUARD, ["a"])).rejects.toMatchObject(expired);
    expect(await countOf(pair(), "source", "items")).toBe(1);
  });

  test("holds none when one of the fences is not closed any more", async () => {
    const { source } = pair();
    await enrol(source);
    await open("a", "b");
    await source.closeFences(GUARD, ["a"], PATIENT);
    const expired = { code: "FENCE_EXPIRED" };
    await expect(source.holdFences(GUARD, ["a", "b"])).rejects.toMatchObject(expired);
    await expect(source.holdFences(GUARD, ["a", "none"])).rejects.toMatchObject(expired);
    expect(await source.fences(["a"])).toMatchObject([{ state: "closed" }]);
  });

  test("I55: closes all of the fences or none, and lets held ones be held", async () => {
    const { source } = pair();
    await enrol(source);
    await open("a", "b");
    const expired = { code: "FENCE_EXPIRED" };
    await source.setFences(GUARD, [{ tenant: "c", epoch: 4, state: "moved", shard: "x" }]);
    for (const other of ["c", "none"]) {
      const closing = source.closeFences(GUARD, ["a", other, "b"], PATIENT);
      await expect(closing).rejects.toMatchObject(expired);
    }
    expect(await source.fences(["a", "b", "c"])).toMatchObject([
      { state: "open", until: null },
      { state: "open", until: null },
      { state: "moved", epoch: 4 },
    ]);
    await source.setFences(GUARD, [{ tenant: "b", epoch: 3, state: "held", shard: null }]);
    await source.closeFences(GUARD, ["a", "b"], PATIENT);
    expect(await source.fences(["a", "b"])).toMatchObject([{ state: "closed" }, { state: "held" }]);
  });

  test("I55: waits for a write under way before it closes", async () => {
    const { source } = pair();
    await armed(pair(), "items");
    await open("a");
    const writing = await pair().begin("source", { tenant: "a", epoch: 3 });
    await writing.sql(insertItems("a", 1));
    let closed = false;
    const closing = source.closeFences(GUARD, ["a"], PATIENT).then(() => {
      closed = true;
    });
    await source.fences(["a"]);
    await new Promise(setImmediate);
    expect(closed).toBe(false);
    await writing.commit();
    await closing;
    const late = pair().write("source", "a", 3, insertItems("a", 2));
    await expect(late).rejects.toMatchObject({ code: "FENCE_CLOSED" });
    expect(await countOf(pair(), "source", "items")).toBe(1);
  });

  test("I55: gives up in time and leaves the fences as they were", async () => {
    const { source } = pair();
    await armed(pair(), "items");
    await open("a", "b");
    const writing = await pair().begin("source", { tenant: "b", epoch: 3 });
    await writing.sql(insertItems("b", 1));
    const closing = source.closeFences(GUARD, ["a", "b"], { waitMs: 50, holdMs: 60_000 });
    await expect(closing).rejects.toMatchObject({ code: "FENCE_BUSY" });
    expect(await source.fences(["a", "b"])).toMatchObject([{ state: "open" }, { state: "open" }]);
    await writing.commit();
    await pair().write("source", "a", 3, insertItems("a", 2));
    expect(await countOf(pair(), "source", "items")).toBe(2);
  });
}
