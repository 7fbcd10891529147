import { expect, test } from "vitest";
import { SensorServer } from "../../../test/sensor-server.ts";
import { PawlError } from "../../kernel/errors.ts";

test("what a server took and died with is evaluated within seconds by the next one", async () => {
  const server = await SensorServer.start();
  const target = { asset_selection: ["a"] };
  await server.publish({ asset_key: "a" }, { kind: "sensor", name: "hook", mode: "push", target });
  const { store } = server;
  const lease = store.leaseProbes.bind(store);
  store.leaseProbes = async (...given) => {
    await lease(...given);
    throw new PawlError("STORE_UNAVAILABLE", "The server dies with what it has taken.");
  };
  await server.receive("hook", "m1");
  store.leaseProbes = lease;

  await server.restart();
  expect(await server.runs()).toEqual([]);
  await server.pass(6_000);
  expect(await server.runs()).toHaveLength(1);
  await server.close();
});

test("a flood of messages keeps no look from being made, nor many looks a message", async () => {
  const server = await SensorServer.start();
  await server.publish(
    { asset_key: "a" },
    { kind: "sensor", name: "hook", mode: "push" },
    { kind: "sensor", name: "look", mode: "poll" },
  );
  for (let n = 0; n < 6; n++) await server.receive("hook", `m${n}`);
  const kinds: string[] = [];
  for (let n = 0; n < 3; n++) {
    const sensors = ["hook", "look"];
    const request = { worker_id: "w", sensors, slots: 1, wait_ms: 0 };
    const { probes } = await server.engine.claimProbes(request);
    kinds.push(...probes.map(({ kind }) => kind));
  }
  expect(kinds.toSorted()).toEqual(["message", "message", "poll"]);
  await server.close();
});

test("a flood of messages to one sensor holds up no other sensor's message", async () => {
  const server = await SensorServer.start();
  const push = ["loud", "quiet", "calm"].map((name) => ({ kind: "sensor", name, mode: "push" }));
  await server.publish({ asset_key: "a" }, ...push);
  for (let n = 0; n < 6; n++) await server.receive("loud", `m${n}`);
  await server.pass(1);
  await server.receive("quiet", "m");
  await server.receive("calm", "m");
  const names: string[] = [];
  for (let n = 0; n < 5; n++) {
    const sensors = ["loud", "quiet", "calm"];
    const request = { worker_id: "w", sensors, slots: 1, wait_ms: 0 };
    const { probes } = await server.engine.claimProbes(request);
    names.push(...probes.map(({ name }) => name));
  }
  expect(names.slice(0, 3).toSorted()).toEqual(["calm", "loud", "quiet"]);
  expect(names.slice(3)).toEqual(["loud", "loud"]);
  await server.close();
});

test("I37: a look stays a worker's while that is heard of, and is free as soon as a task would be", async () => {
  const server = await SensorServer.start();
  await server.publish(
    { asset_key: "a" },
    { kind: "sensor", name: "hook", mode: "push" },
    { kind: "sensor", name: "look", mode: "poll" },
  );
  // A worker that dies before its first word.
  const silent = await server.claimOne("look");
  await server.pass(14_999);
  expect(await server.claim(["look"])).toEqual([]);
  await server.pass(1);
  const { probe_id, attempt } = await server.claimOne("look");
  expect(attempt).toBe(silent.attempt + 1);
  const beat = { worker_id: "w", leases: [], tasks: [], looks: [{ probe_id, attempt }] };
  for (let beats = 0; beats < 12; beats++) {
    await server.pass(10_000);
    expect(await server.engine.heartbeat(beat)).toMatchObject({ lost_looks: [] });
    expect(await server.claim(["look"])).toEqual([]);
  }
  await server.pass(14_999);
  expect(await server.claim(["look"])).toEqual([]);
  await server.pass(1);
  expect(await server.claimOne("look")).toMatchObject({ attempt: attempt + 1 });
  expect(await server.engine.heartbeat(beat)).toMatchObject({
    lost_looks: [{ probe_id, attempt }],
  });
  await server.close();
});

test.each(["look", "hook"])(
  "I65: %s is free at once when its worker gives it back",
  async (name) => {
    const server = await SensorServer.start();
    await server.publish(
      { asset_key: "a" },
      { kind: "sensor", name: "hook", mode: "push" },
      { kind: "sensor", name: "look", mode: "poll" },
    );
    if (name === "hook") await server.receive("hook", "m1");
    const probe = await server.claimOne(name);
    const before = await server.pos();
    expect(await server.report(probe, { type: "released" })).toBe("unchanged");
    const again = await server.claimOne(name);
    expect(again).toMatchObject({ attempt: probe.attempt + 1, cursor: probe.cursor });
    expect(await server.pos()).toBe(before);
    await server.close();
  },
);
