import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../../../test/postgres.ts";
import { seen, syncSpec } from "../../../test/sync-server.ts";
import { publishDefinitions } from "../../work/definition/publish.ts";
import { Spec } from "../../work/definition/published-spec.ts";
import { TABLES } from "../../work/tables.ts";
import type { ClaimedHead, HeadOutcome } from "../../work/probe-protocol.ts";
import { openPostgresStore } from "../../store/postgres/store.ts";
import type { Store } from "../../store/store.ts";
import { Engine } from "../engine.ts";
import { machineEnvironment } from "../config.ts";

/** Two servers on one database, as many machines have them. */
let servers: { engine: Engine; store: Store }[] = [];
let warnings: unknown[] = [];

beforeEach(async () => {
  const url = await freshDatabaseUrl();
  warnings = [];
  servers = [];
  for (let n = 0; n < 2; n++) {
    const store = await openPostgresStore({ url, unsafe: false });
    const environment = machineEnvironment((...warning) => warnings.push(warning));
    const engine = await Engine.open({ store, tenantId: "t", workspaceId: "w", environment });
    engine.start();
    servers.push({ engine, store });
  }
  const targets = [{ wallet: "a" }, { wallet: "b" }];
  const specs = [Spec.parse(syncSpec({ targets, head_every_ms: 100 }))];
  const publish = publishDefinitions({ origin: "code", specs, prune: false });
  const actor = { principal: "ann", token_id: null };
  await engineAt(0).submit(publish, { actor, correlationId: "test" });
});

afterEach(async () => {
  for (const { engine, store } of servers) {
    await engine.stop();
    await store.close();
  }
  expect(warnings).toEqual([]);
});

function engineAt(server: number): Engine {
  const engine = servers[server]?.engine;
  if (engine === undefined) throw new Error(`There is no server ${server}.`);
  return engine;
}

async function claim(server: number, wait_ms: number): Promise<ClaimedHead[]> {
  const request = { worker_id: `w${server}`, syncs: ["s"], slots: 10, wait_ms };
  return (await engineAt(server).claimHeads(request)).heads;
}

async function report(server: number, head: ClaimedHead, outcome: HeadOutcome): Promise<string> {
  const { probe_id, attempt, sync, source } = head;
  const results = [{ probe_id, attempt, sync, source, outcome }];
  const answer = await engineAt(server).reportHeads({ worker_id: `w${server}`, results });
  return answer.results[0] ?? "nothing";
}

describe("two servers on PostgreSQL", () => {
  test("look at a head once, and take one of two reports", async () => {
    const [first, second] = await Promise.all([claim(0, 1_500), claim(1, 1_500)]);
    const taken = [...(first ?? []), ...(second ?? [])];
    expect(taken).toMatchObject([{ sync: "s", source: "node", attempt: 1 }]);
    const [head] = taken;
    if (head === undefined) return;
    const verdicts = await Promise.all([report(0, head, seen(50)), report(1, head, seen(50))]);
    expect(verdicts.toSorted()).not.toEqual(["recorded", "recorded"]);
    expect(verdicts).toContain("recorded");
    const find = { table: TABLES.syncSources, where: [], order: [], limit: 10 };
    const sources = await engineAt(0).read((reader) => reader.find(find));
    expect(sources).toMatchObject([{ name: "s", source: "node", head: 50, moves: 1 }]);
  });

  test("take turns: what one reported is due at the other", async () => {
    for (let turn = 0; turn < 4; turn++) {
      const [head] = await claim(turn % 2, 20_000);
      expect(head).toMatchObject({ attempt: turn + 1 });
      if (head !== undefined)
        expect(await report(turn % 2, head, seen(50 + turn))).toBe("recorded");
    }
    expect(await engineAt(1).headStatus()).toMatchObject([{ sync: "s", source: "node" }]);
  });
});
