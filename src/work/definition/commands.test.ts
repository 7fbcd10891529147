import { beforeEach, describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { ScheduleSpec } from "./spec.ts";
import type { NewEvent } from "../events.ts";
import { publishDefinitions } from "./publish.ts";
import { createEntity, updateEntity } from "./commands.ts";

let world: LedgerWorld;

beforeEach(() => {
  world = new LedgerWorld();
  world.publish({ asset_key: "a" });
});

/** A publish as it was recorded when longer configurations were taken. */
function withConfig(event: NewEvent, config: string): NewEvent {
  if (event.type !== "DefinitionsPublished") return event;
  const specs = event.data.specs.map((entry) => {
    return { ...entry, body: { ...entry.body, config } as typeof entry.body };
  });
  return { ...event, data: { ...event.data, specs } };
}

describe("making a schedule by the API", () => {
  const spec = ScheduleSpec.parse({
    kind: "schedule",
    name: "by-hand",
    cron: "@hourly",
    asset_selection: ["a"],
  });

  test("survives a publish of code that does not know it, and keeps its name", () => {
    world.submit(createEntity(spec));
    world.publish({ ...spec, name: "hourly" });
    expect(world.schedules().map(({ name, origin }) => `${name} ${origin}`)).toEqual([
      "by-hand api",
      "hourly code",
    ]);
    expect(() => world.submit(createEntity(spec))).toThrow(/is a schedule by-hand already/);
    expect(() => world.submit(createEntity({ ...spec, name: "hourly" }))).toThrow(/made by code/);
  });

  test("I76: is refused with more configuration or labels than all its runs may have", () => {
    const config = "x".repeat(16_000);
    expect(() => world.submit(createEntity({ ...spec, config }))).toThrow(
      /by-hand has a configuration of 16002 .* at most 16000/,
    );
    const labels = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [`l${at}`, "x".repeat(400)]),
    );
    expect(() => world.submit(createEntity({ ...spec, labels }))).toThrow(/has labels of/);
  });

  test("I76: goes on with what it was given before there was a limit, and can be changed otherwise", () => {
    const config = "x".repeat(20_000);
    const old = { ...spec, selection: { type: "stale" as const, limit: 10 } };
    world.submit((rows, context) => {
      const { events, result } = createEntity(old)(rows, context);
      return { events: events.map((event) => withConfig(event, config)), result };
    });
    world.publish({ asset_key: "b" });
    const change = (changes: object) =>
      updateEntity("schedule", { id: "by-hand" }, () => ({ ...old, config, ...changes }));
    world.submit(change({ cron: "@daily" }));
    expect(() => world.submit(change({ config: `${config}x` }))).toThrow(/configuration of 20003/);
    world.pass(86_400_000);
    world.settle();
    expect(world.backfills()).toMatchObject([{ config, asset_selection: ["a"] }]);
  });

  test("is not left without its asset by a publish of code, which is told who made it", () => {
    world.submit(createEntity(spec));
    const publish = publishDefinitions({ origin: "code", specs: [], prune: true });
    expect(() => world.submit(publish)).toThrow(
      /The schedule by-hand names the asset "a", which is not defined.* made by the API/,
    );
  });
});
