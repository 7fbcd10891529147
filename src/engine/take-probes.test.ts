import { expect, test } from "vitest";
import { SensorServer } from "../../test/sensor-server.ts";
import { PawlError } from "../core/errors.ts";

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
