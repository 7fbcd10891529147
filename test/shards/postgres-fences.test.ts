import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { armed, GUARD, insertItems } from "./conformance/stage.ts";
import { POSTGRES_DIALECT, postgresPair } from "./postgres-pair.ts";

const OPEN = { tenant: "a", epoch: 3, state: "open", shard: null } as const;

describe("PostgreSQL fences", () => {
  let pair: Awaited<ReturnType<typeof postgresPair>>;
  beforeEach(async () => {
    pair = await postgresPair(POSTGRES_DIALECT);
  });
  afterEach(() => pair.close());

  test("I55: whoever sets or drops one past a long write is told to try again, not to give up", async () => {
    const { source } = pair;
    await armed(pair, "items");
    await source.setFences(GUARD, [OPEN]);
    const writing = await pair.begin("source", { tenant: "a", epoch: 3 });
    await writing.sql(insertItems("a", 1));
    const busy = { code: "SHARD_BUSY" };
    const moved = { tenant: "a", epoch: 4, state: "moved", shard: "b" } as const;
    await Promise.all([
      expect(source.setFences(GUARD, [moved])).rejects.toMatchObject(busy),
      expect(source.dropFences(GUARD, ["a"])).rejects.toMatchObject(busy),
      expect(source.closeFences(GUARD, ["a"], { waitMs: 10, holdMs: 1_000 })).rejects.toMatchObject(
        { code: "FENCE_BUSY" },
      ),
    ]);
    await writing.commit();
    await source.setFences(GUARD, [moved]);
    expect(await source.fences(["a"])).toMatchObject([{ state: "moved", epoch: 4 }]);
  });
});
