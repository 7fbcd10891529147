import type { AnyRow, Table } from "../../kernel/table.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../../../test/postgres.ts";
import { ask, found } from "../../../test/sensor-server.ts";
import type { Decide } from "../../work/decision.ts";
import { publishDefinitions } from "../../work/definition/publish.ts";
import { receiveMessages } from "../../work/sensor/commands.ts";
import type { ClaimedProbe, EvaluationOutcome } from "../../work/probe-protocol.ts";
import { Spec } from "../../work/definition/published-spec.ts";
import { TABLES } from "../../work/tables.ts";
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
  const specs = [
    { kind: "asset", asset_key: "a", partitions: null },
    { kind: "sensor", name: "look", mode: "poll", min_interval_ms: 100 },
    { kind: "sensor", name: "hook", mode: "push" },
  ].map((spec) => Spec.parse(spec));
  await submit(0, publishDefinitions({ origin: "code", specs, prune: false }));
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

async function submit<Result>(server: number, decide: Decide<Result>): Promise<Result> {
  const actor = { principal: "ann", token_id: null };
  return (await engineAt(server).submit(decide, { actor, correlationId: "test" })).result;
}

async function claim(server: number, sensor: string, wait_ms: number): Promise<ClaimedProbe[]> {
  const request = { worker_id: `w${server}`, sensors: [sensor], slots: 10, wait_ms };
  return (await engineAt(server).claimProbes(request)).probes;
}

async function report(
  server: number,
  probe: ClaimedProbe,
  outcome: EvaluationOutcome,
): Promise<string> {
  const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = probe;
  const read = { probe_id, attempt, cursor, expected_state_version, poll_epoch };
  const request = { worker_id: `w${server}`, results: [{ ...read, outcome }] };
  return (await engineAt(server).reportProbes(request)).results[0] ?? "nothing";
}

async function rows<Row extends AnyRow>(table: Table<Row>, order: string): Promise<Row[]> {
  const find = { table, where: [], order: [{ cell: order }], limit: 1_000 };
  return engineAt(0).read((reader) => reader.find(find));
}

describe("two servers on PostgreSQL", () => {
  test("I25: make one run of a message that reaches both 20 times, 5 at once", async () => {
    const payload_digest = "0".repeat(64);
    const message = { message_id: "m1", source: "webhook", type: null, attributes: {} } as const;
    const messages = [{ ...message, payload: 1, published_at: null, payload_digest }];
    const results: string[] = [];
    for (let round = 0; round < 4; round++) {
      const five = Array.from({ length: 5 }, (_, n) =>
        submit(n % 2, receiveMessages({ sensor: "hook", messages })),
      );
      for (const received of await Promise.all(five)) results.push(...received.results);
    }
    expect(results.filter((result) => result === "received")).toHaveLength(1);
    // Whoever waits at either server, one of them gets it, and the other nothing.
    const taken = await Promise.race([claim(0, "hook", 20_000), claim(1, "hook", 20_000)]);
    expect(taken).toMatchObject([{ kind: "message", message: { message_id: "m1" } }]);
    const [probe] = taken;
    if (probe === undefined) return;
    const twice = [report(0, probe, found(null, ask())), report(1, probe, found(null, ask()))];
    const verdicts = await Promise.all(twice);
    expect(verdicts.filter((verdict) => verdict === "recorded")).toHaveLength(1);
    expect(verdicts.filter((verdict) => verdict === "lost")).toHaveLength(1);
    expect(await rows(TABLES.runs, "run_pos")).toHaveLength(1);
  });

  test("I26: apply one of two evaluations on one cursor, and record the other without effect", async () => {
    for (let round = 1; round <= 5; round++) {
      const [one] = await claim(0, "look", 20_000);
      // A second evaluator: a person asks at the other server.
      const request = { sensor: "look", request_id: `r${round}`, dry_run: false, message: null };
      await engineAt(1).requestEvaluation(request);
      const [two] = await claim(1, "look", 20_000);
      if (one === undefined || two === undefined) throw new Error("There are two evaluations.");
      expect(two).toMatchObject({ kind: "manual", cursor: one.cursor });
      const verdicts = await Promise.all([
        report(0, one, found(`a${round}`, ask())),
        report(1, two, found(`b${round}`, ask())),
      ]);
      expect(verdicts.toSorted()).toEqual(["recorded", "stale"]);
      expect(await rows(TABLES.runs, "run_pos")).toHaveLength(round);
      const winner = verdicts[0] === "recorded" ? `a${round}` : `b${round}`;
      const sensors = await rows(TABLES.sensors, "sensor_id");
      const look = sensors.find(({ name }) => name === "look");
      expect(look).toMatchObject({ cursor: winner, state_version: round + 1 });
    }
    const evals = await rows(TABLES.sensorEvals, "pos");
    expect(evals.filter(({ status }) => status === "triggered")).toHaveLength(5);
    expect(evals.filter(({ status }) => status === "skipped_stale_cursor")).toHaveLength(5);
  });

  test("give a poll to one worker at a time, whichever server it asks", async () => {
    const taken = await Promise.race([claim(0, "look", 20_000), claim(1, "look", 20_000)]);
    expect(taken).toHaveLength(1);
    for (const server of [0, 1]) expect(await claim(server, "look", 300)).toEqual([]);
  });
});
