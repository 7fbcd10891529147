import { expect, test } from "vitest";
import { applying, armed, enrol, GUARD, insertItems, state } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

const STALE = { code: "COORDINATOR_STALE" };

/** Who may act for a plan, and what is kept for it. */
export function planCases(pair: () => ShardPair): void {
  test("I57: lets the highest token act and refuses a lower one", async () => {
    const { source } = pair();
    await enrol(source, { plan: "plan-1", token: 5 });
    await source.take({ plan: "plan-1", token: 5 });
    await expect(source.take({ plan: "plan-1", token: 4 })).rejects.toMatchObject(STALE);
    await source.take({ plan: "plan-2", token: 1 });
    await source.take({ plan: "plan-1", token: 6 });
    await expect(source.take({ plan: "plan-1", token: 5 })).rejects.toMatchObject(STALE);
  });

  test("I57: lets a step that was overtaken change nothing", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source, target } = pair();
    await pair().sql("source", insertItems("a", 1));
    await source.setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }]);
    const next = { plan: GUARD.plan, token: 2 };
    await source.take(next);
    await target.take(next);
    const [table] = shapes;
    if (table === undefined) throw new Error("There is a table.");
    const fence = { tenant: "a", epoch: 9, state: "moved", shard: "x" } as const;
    const wait = { waitMs: 100, holdMs: 1_000 };
    const late: (() => Promise<unknown>)[] = [
      () => source.take(GUARD),
      () => source.armCapture(GUARD, shapes),
      () => source.disarmCapture(GUARD),
      () => source.release(GUARD, position),
      () => target.apply(applying(shapes)),
      () => target.dropStream(GUARD, "plan-1"),
      () => source.remove(GUARD, { table, scope: [] }, { limit: 10, expect: null }),
      () => source.setFences(GUARD, [fence]),
      () => source.closeFences(GUARD, ["a"], wait),
      () => source.holdFences(GUARD, ["a"]),
      () => source.dropFences(GUARD, ["a"]),
      () =>
        source.runDdl(GUARD, "alter table items drop column n", [
          { table: "items", shard_by: "tenant" },
        ]),
    ];
    for (const act of late) await expect(act(), act.toString()).rejects.toMatchObject(STALE);
    expect(await source.fences(["a"])).toMatchObject([{ tenant: "a", epoch: 1, state: "open" }]);
    expect(await pair().sql("source", "select id from items")).toEqual([[1]]);
    expect(await target.loadStream("plan-1")).toBeNull();
  });

  test("refuses a plan that was never taken", async () => {
    const { source } = pair();
    await enrol(source);
    const unknown = source.dropFences({ plan: "unknown", token: 1 }, ["a"]);
    await expect(unknown).rejects.toMatchObject(STALE);
  });

  test("keeps the state of streams and lists those of a plan by name", async () => {
    const { shapes } = await armed(pair(), "items");
    const { target } = pair();
    const first = state({ cursor: { table: 0, key: ["1"] }, rows: [3], fingerprint: "f" });
    const second = state({
      position: "7",
      reaching: { to: "9", after_id: "8" },
      phase: "tail",
      cursor: { table: 1, key: null },
      verified: { table: 0, below: ["5"], from: "6", ranges: 1, rows: 5 },
    });
    await target.apply(applying(shapes, { stream: "plan-1:2:1", after: second }));
    await target.apply(applying(shapes, { stream: "plan-1:10:1", after: first }));
    await target.take({ plan: "plan-2", token: 1 });
    const other = { guard: { plan: "plan-2", token: 1 }, stream: "plan-2", after: first };
    await target.apply(applying(shapes, other));
    expect(await target.loadStream("plan-1:2:1")).toEqual(second);
    expect(await target.loadStream("absent")).toBeNull();
    expect(await target.listStreams("plan-1")).toEqual([
      { stream: "plan-1:10:1", state: first },
      { stream: "plan-1:2:1", state: second },
    ]);
    await target.dropStream(GUARD, "plan-1:2:1");
    await target.dropStream(GUARD, "plan-1:2:1");
    expect(await target.loadStream("plan-1:2:1")).toBeNull();
  });
}
