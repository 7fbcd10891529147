import { describe, expect, test } from "vitest";
import { LedgerWorld, refusalOf } from "../../../test/properties/ledger-world.ts";
import { SensorSpec } from "../definition/spec.ts";
import { type IncomingMessage, pauseSensor, receiveMessages } from "./commands.ts";
import { createEntity, deleteEntity } from "../definition/commands.ts";

function message(message_id: string, given: Partial<IncomingMessage> = {}): IncomingMessage {
  return {
    message_id,
    source: "webhook",
    type: null,
    attributes: {},
    payload: { a: 1 },
    published_at: null,
    payload_digest: "0".repeat(64),
    ...given,
  };
}

function pushed(): LedgerWorld {
  const world = new LedgerWorld();
  world.publish({ asset_key: "a" });
  const target = { asset_selection: ["a"] };
  world.publish({ kind: "sensor", name: "hook", mode: "push", target });
  world.publish({ kind: "sensor", name: "look", mode: "poll" });
  return world;
}

describe("receiveMessages", () => {
  test("keeps each message once, also when it comes twice in one request", () => {
    const world = pushed();
    const receive = (...ids: string[]) =>
      world.submit(receiveMessages({ sensor: "hook", messages: ids.map((each) => message(each)) }))
        .results;
    const before = world.pos;
    expect(receive("m1", "m2", "m1")).toEqual(["received", "received", "duplicate"]);
    expect(receive("m2", "m3")).toEqual(["duplicate", "received"]);
    expect(receive("m1")).toEqual(["duplicate"]);
    expect(world.pos - before).toBe(3);
    expect(new Set(world.events.map(({ idempotency_key }) => idempotency_key)).size).toBe(
      world.pos,
    );
  });

  test("refuses another message under a known id, and keeps nothing of that request", () => {
    const world = pushed();
    world.submit(receiveMessages({ sensor: "hook", messages: [message("m1")] }));
    const before = world.pos;
    const other = message("m1", { payload_digest: "1".repeat(64) });
    const messages = [message("m2"), other];
    const error = refusalOf(() => world.submit(receiveMessages({ sensor: "hook", messages })));
    expect(error.code).toBe("IDEMPOTENCY_KEY_REUSED");
    expect(error.message).toContain('"m1"');
    expect(world.pos).toBe(before);
  });

  test("keeps messages of a paused sensor, which wait for it", () => {
    const world = pushed();
    world.submit(pauseSensor({ sensor: "hook" }));
    const { sensor_id } = world.submit(
      receiveMessages({ sensor: "hook", messages: [message("m1")] }),
    );
    const row = world.read((rows) => rows.sensors.get(sensor_id));
    expect(row).toMatchObject({ state: "PAUSED", messages_pending: 1 });
  });

  test("refuses sensors that look by themselves, are unknown or deleted, and large payloads", () => {
    const world = pushed();
    const codeOf = (sensor: string, ...messages: IncomingMessage[]) =>
      refusalOf(() => world.submit(receiveMessages({ sensor, messages }))).code;
    expect(codeOf("look", message("m"))).toBe("INPUT_INVALID");
    expect(codeOf("nothing", message("m"))).toBe("SENSOR_NOT_FOUND");
    const large = message("m", { payload: "x".repeat(256_000) });
    expect(codeOf("hook", large)).toBe("SELECTION_TOO_LARGE");
    const spec = SensorSpec.parse({ kind: "sensor", name: "short", mode: "push" });
    const { id } = world.submit(createEntity(spec));
    world.submit(deleteEntity("sensor", { id }));
    expect(codeOf(id, message("m"))).toBe("SENSOR_NOT_FOUND");
  });
});
