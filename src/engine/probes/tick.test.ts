import { describe, expect, test } from "vitest";
import { ask, found, SensorServer } from "../../../test/sensor-server.ts";

describe("tick", () => {
  test("evaluates what needs no worker, and makes due what a worker has to look at", async () => {
    const server = await SensorServer.start({ isIdle: true });
    await server.publish({ asset_key: "a" });
    const target = { asset_selection: ["a"] };
    await server.publish(
      { kind: "sensor", name: "declared", mode: "push", target },
      { kind: "sensor", name: "look", mode: "poll" },
    );
    await server.receive("declared", "m1");
    expect(await server.runs()).toEqual([]);
    expect(await server.claim(["look"])).toEqual([]);

    const { events } = await server.engine.tick();
    expect(events).toBe(2);
    expect(await server.runs()).toHaveLength(1);
    const probe = await server.claimOne("look");
    expect(await server.report(probe, found("c1", ask()))).toBe("recorded");
    expect((await server.engine.tick()).events).toBe(0);
    expect(server.warnings).toEqual([]);
    await server.close();
  });
});
