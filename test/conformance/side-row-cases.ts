import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { AssertionFailure } from "../../src/kernel/errors.ts";
import { epochMsOf } from "../../src/kernel/instant.ts";
import type { Answer, Checkpoint, Lease, TokenRow } from "../../src/store/store.ts";
import { NOON, ROOMY, commit, flushOf, lease, putTasks, type task } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const TTL_MS = 15_000;
/** Who claimed the tasks. */
const HOLDER = "token-1";
const FENCE = { run_pos: 1, task_key: 0, attempt: 1 };
const LATER = "2999-01-01T00:00:00.000Z";

/** What stands beside the ledger, and that the fence guards it. */
export function sideRowCases({ store, ws }: Suite): void {
  const leases = (limit = 100): Promise<Lease[]> =>
    store().read(ws(), (reader) => reader.leases(limit));
  const checkpoints = (): Promise<Checkpoint[]> =>
    store().read(ws(), (reader) => reader.checkpoints([{ run_pos: 1, task_key: 0 }]));
  const insertTask = (given: Parameters<typeof task>[0]): Promise<void> =>
    putTasks(store(), ws(), [given]);

  test("grants and releases leases with the commit, and lists them by expiry", async () => {
    const granted = ["c", "a", "b"].map((lease_id, index) =>
      lease({ lease_id, expires_at: `2026-01-0${index + 1}T00:00:00.000Z` }),
    );
    await commit(store(), ws(), { leasesGranted: granted });
    expect(await leases()).toEqual(granted);
    expect(await leases(2)).toEqual(granted.slice(0, 2));
    await commit(store(), ws(), { leasesReleased: ["a", "unknown"] });
    expect((await leases()).map(({ lease_id }) => lease_id)).toEqual(["c", "b"]);
  });

  test("I41, I42: renews the leases that exist by the store's clock, without an event", async () => {
    await commit(store(), ws(), { leasesGranted: [lease({ lease_id: "mine" })] });
    for (let late = 0; ; late++) {
      const before = epochMsOf(await store().now());
      expect(await store().renewLeases(ws(), ["mine", "gone"], TTL_MS)).toEqual(["mine"]);
      const after = epochMsOf(await store().now());
      const [renewed] = await leases();
      const renewedAt = epochMsOf(renewed?.expires_at ?? "") - TTL_MS;
      expect(renewedAt).toBeGreaterThanOrEqual(before);
      // An answer that came late puts the store's time ahead, and it falls back by a tenth of real time.
      if (renewedAt <= after || late === 100) {
        expect(renewedAt).toBeLessThanOrEqual(after);
        break;
      }
      await sleep(100);
    }
    expect(await store().read(ws(), (reader) => reader.head())).toMatchObject({ pos: 0 });
  });

  test("a renewal never shortens a lease, nor touches another workspace", async () => {
    await commit(store(), ws(), { leasesGranted: [lease({ expires_at: LATER })] });
    expect(await store().renewLeases(ws(), ["lease-1"], TTL_MS)).toEqual(["lease-1"]);
    expect(await leases()).toEqual([lease({ expires_at: LATER })]);
    const other = await store().workspace("acme", "other");
    expect(await store().renewLeases(other.ws, ["lease-1"], TTL_MS)).toEqual([]);
  });

  test("I35: keeps a checkpoint only from the current attempt of a running task", async () => {
    await insertTask({ task_key: 0, attempt: 2 });
    await insertTask({ task_key: 1, state: "RETRY_WAIT", retry_at: NOON });
    const save = (task_key: number, attempt: number): Promise<boolean[]> =>
      store().saveCheckpoints(ws(), HOLDER, [
        { run_pos: 1, task_key, attempt, value: { attempt } },
      ]);
    expect(await save(0, 1)).toEqual([false]);
    expect(await save(0, 3)).toEqual([false]);
    expect(await save(1, 1)).toEqual([false]);
    expect(await save(2, 1)).toEqual([false]);
    expect(await checkpoints()).toEqual([]);
    expect(await save(0, 2)).toEqual([true]);
    expect(await checkpoints()).toMatchObject([{ attempt: 2, value: { attempt: 2 } }]);
  });

  test("I77: keeps what a task says only from whoever claimed it", async () => {
    await insertTask({ task_key: 0, claimed_by: HOLDER });
    const fence = { run_pos: 1, task_key: 0, attempt: 1 };
    const said = (holder: string) =>
      Promise.all([
        store().saveCheckpoints(ws(), holder, [{ ...fence, value: holder }]),
        store().saveProgress(ws(), holder, [{ ...fence, done: 1, total: 1, note: holder }]),
        store().appendLogs(ws(), holder, [{ ...fence, message: holder, fields: null }], ROOMY),
      ]);
    expect((await said("token-2")).flat()).toEqual([false, false, "lost"]);
    expect(await checkpoints()).toEqual([]);
    expect((await said(HOLDER)).flat()).toEqual([true, true, "kept"]);
    expect(await checkpoints()).toMatchObject([{ value: HOLDER }]);
  });

  test("I64: tells how many bytes the checkpoints have, by run and by who saved them", async () => {
    expect(await store().checkpointBytes(ws())).toEqual([]);
    await insertTask({ run_pos: 2, claimed_by: HOLDER });
    const claimed = [HOLDER, HOLDER, "token-2", null];
    for (const [task_key, claimed_by] of claimed.entries())
      await insertTask({ task_key, claimed_by });
    const items = claimed.map((_, task_key) => ({ run_pos: 1, task_key, attempt: 1, value: "é" }));
    await store().saveCheckpoints(ws(), HOLDER, [...items.slice(0, 2), ...items.slice(3)]);
    await store().saveCheckpoints(ws(), "token-2", items.slice(2, 3));
    await store().saveCheckpoints(ws(), HOLDER, [{ ...FENCE, run_pos: 2, value: 1 }]);
    const sizes = await store().checkpointBytes(ws());
    expect(sizes.toSorted((a, b) => a.run_pos - b.run_pos || a.bytes - b.bytes)).toEqual([
      { run_pos: 1, holder: "token-2", bytes: 4 },
      { run_pos: 1, holder: HOLDER, bytes: 12 },
      { run_pos: 2, holder: HOLDER, bytes: 1 },
    ]);
  });

  test("I35: answers item by item, and the last value under a fence stays", async () => {
    await insertTask({ task_key: 0 });
    await insertTask({ task_key: 1 });
    const item = (task_key: number, attempt: number, value: string | null) => {
      return { run_pos: 1, task_key, attempt, value };
    };
    const items = [item(0, 1, "first"), item(0, 2, "stale"), item(0, 1, "last"), item(1, 1, null)];
    expect(await store().saveCheckpoints(ws(), HOLDER, items)).toEqual([true, false, true, true]);
    expect(await checkpoints()).toMatchObject([{ run_pos: 1, task_key: 0, value: "last" }]);
    expect(await store().saveCheckpoints(ws(), HOLDER, [])).toEqual([]);
  });

  test("a later attempt finds the checkpoint of an earlier one", async () => {
    await insertTask({ attempt: 1 });
    const value = { b: "é🙂", a: [1, null] };
    await store().saveCheckpoints(ws(), HOLDER, [{ run_pos: 1, task_key: 0, attempt: 1, value }]);
    await putTasks(store(), ws(), [{ attempt: 2 }]);
    expect(await checkpoints()).toMatchObject([{ attempt: 1, value }]);
  });

  test("I35: keeps progress behind the fence", async () => {
    await insertTask({ task_key: 3 });
    const word = { run_pos: 1, task_key: 3, done: 5, total: null, note: "half-way" };
    const said = await store().saveProgress(ws(), HOLDER, [
      { ...word, attempt: 1 },
      { ...word, attempt: 9 },
    ]);
    expect(said).toEqual([true, false]);
    await store().saveProgress(ws(), HOLDER, [{ ...word, attempt: 1, done: 6, total: 10 }]);
    const progress = await store().read(ws(), (reader) => reader.progress(1));
    expect(progress).toMatchObject([{ ...word, attempt: 1, done: 6, total: 10 }]);
    expect(await store().read(ws(), (reader) => reader.progress(2))).toEqual([]);
  });

  test("forgets checkpoints and progress of a run that ended, and keeps its log", async () => {
    await insertTask({});
    const fence = { run_pos: 1, task_key: 0, attempt: 1 };
    await store().saveCheckpoints(ws(), HOLDER, [{ ...fence, value: 1 }]);
    await store().saveProgress(ws(), HOLDER, [{ ...fence, done: 1, total: 1, note: null }]);
    await store().appendLogs(ws(), HOLDER, [{ ...fence, message: "kept", fields: null }], ROOMY);
    await commit(store(), ws(), { runsFinished: [1, 2] });
    expect(await checkpoints()).toEqual([]);
    await store().read(ws(), async (reader) => {
      expect(await reader.progress(1)).toEqual([]);
      expect(await reader.logs(1, 0, 0, 10)).toHaveLength(1);
    });
  });

  test("many side writes at once are each answered for themselves", async () => {
    await insertTask({});
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        store().saveCheckpoints(ws(), HOLDER, [
          { run_pos: 1, task_key: 0, attempt: 1 + (index % 2), value: index },
        ]),
      ),
    );
    expect(answers).toEqual(answers.map((_, index) => [index % 2 === 0]));
  });

  test("keeps answers with the commit, under scope and key, until they are pruned", async () => {
    const answer = (given: Partial<Answer>): Answer => ({
      scope: "alice createBackfill",
      key: "key-1",
      body_hash: "abc",
      status: 201,
      answer: { backfill_id: "b1" },
      stored_at: NOON,
      ...given,
    });
    const answers = [answer({}), answer({ key: "key-2", stored_at: LATER })];
    await commit(store(), ws(), { answers });
    const read = (scope: string, key: string): Promise<Answer | null> =>
      store().read(ws(), (reader) => reader.answer(scope, key));
    expect(await read("alice createBackfill", "key-1")).toEqual(answers[0]);
    expect(await read("bob createBackfill", "key-1")).toBeNull();

    const again = commit(store(), ws(), { answers: [answer({ body_hash: "other" })] });
    await expect(again).rejects.toBeInstanceOf(AssertionFailure);
    expect(await store().pruneAnswers(ws(), LATER)).toBe(1);
    expect(await read("alice createBackfill", "key-1")).toBeNull();
    expect(await read("alice createBackfill", "key-2")).toEqual(answers[1]);
  });

  test("keeps tokens, finds them by hash and revokes them once", async () => {
    const token: TokenRow = {
      token_id: "t1",
      ws: ws(),
      principal: "alice",
      secret_hash: "hash-1",
      verbs: ["read", "write"],
      created_at: NOON,
      expires_at: null,
      revoked_at: null,
    };
    await store().saveToken(token);
    await store().saveToken({ ...token, token_id: "t0", secret_hash: "hash-0" });
    expect(await store().tokenByHash("hash-1")).toEqual(token);
    expect(await store().tokenByHash("unknown")).toBeNull();
    const { ws: _, ...row } = token;
    const read = (at: number, id: string) => store().read(at, (reader) => reader.token(id));
    expect(await read(ws(), "t1")).toEqual(row);
    expect(await read(ws(), "unknown")).toBeNull();
    const seen = await store().transact(ws(), (transaction) => transaction.token("t1"));
    expect(seen).toEqual(row);
    expect((await store().tokens(ws())).map(({ token_id }) => token_id)).toEqual(["t0", "t1"]);

    expect(await store().revokeToken(ws(), "t1")).toBe(true);
    const revoked = await store().tokenByHash("hash-1");
    expect(revoked?.revoked_at).not.toBeNull();
    expect(await store().revokeToken(ws(), "t1")).toBe(true);
    expect(await store().tokenByHash("hash-1")).toEqual(revoked);
    expect(await read(ws(), "t1")).toEqual({ ...row, revoked_at: revoked?.revoked_at });
    expect(await store().revokeToken(ws(), "unknown")).toBe(false);
    const other = await store().workspace("acme", "other");
    expect(await store().revokeToken(other.ws, "t0")).toBe(false);
    expect(await read(other.ws, "t0")).toBeNull();
    expect(await store().tokens(other.ws)).toEqual([]);
  });

  test("makes a tenant's secret once, whoever asks first", async () => {
    const secrets = await Promise.all(
      Array.from({ length: 10 }, (_, index) => store().tenantSecret("acme", `fresh-${index}`)),
    );
    expect(new Set(secrets).size).toBe(1);
    expect(await store().tenantSecret("acme", "too late")).toBe(secrets[0]);
    expect(await store().tenantSecret("rival", "other")).toBe("other");
  });

  test("finds a workspace again instead of making it twice", async () => {
    const made = await Promise.all(
      Array.from({ length: 10 }, () => store().workspace("acme", "new")),
    );
    expect(new Set(made.map((workspace) => workspace.ws)).size).toBe(1);
    const all = await store().workspaces();
    expect(all).toContainEqual(made[0]);
    expect(all).toHaveLength(2);
    const { ws: fresh } = await store().workspace("acme", "new");
    await commit(store(), fresh, flushOf({ leasesGranted: [lease({})] }));
  });
}
