import {
  pauseSensor,
  resetCursor,
  resumeSensor,
  type SensorChanged,
} from "../../src/work/sensor/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { SENSORS } from "./draw-sensors.ts";
import { type ClientWorld, SimulatedClient } from "./simulated-client.ts";

/** What operators of sensors need from the simulation around them. */
export type SensorOperatorWorld = ClientWorld & { newId: () => string };

const OPERATIONS = { pause: 3, resume: 6, reset: 7, evaluate: 3, tryOut: 2 };

/** Somebody who stops, starts, rewinds and tries out sensors. */
export class SimulatedSensorOperator {
  readonly #world: SensorOperatorWorld;
  readonly #client: SimulatedClient;
  readonly #versions = new Map<string, number>();

  constructor(world: SensorOperatorWorld, principal: string) {
    this.#world = world;
    this.#client = new SimulatedClient(world, principal);
  }

  /** Does so many things, with pauses in between. */
  async run(operations: number): Promise<void> {
    const { time, random, isOver } = this.#world;
    for (let done = 0; done < operations && !isOver(); done++) {
      await time.sleep(random.integer(0, 4_000));
      await this.#act();
    }
  }

  /** Lets a sensor act again, and asks until it does. */
  async resume(sensor: string): Promise<void> {
    for (let attempt = 0; attempt < 100; attempt++) {
      if ((await this.#client.submit("resume", resumeSensor({ sensor }), null)) !== null) return;
      await this.#world.time.sleep(500);
    }
  }

  async #act(): Promise<void> {
    const { random } = this.#world;
    const operation = random.weighted(OPERATIONS);
    const sensor = random.pick(SENSORS);
    const known = this.#versions.get(sensor);
    const expected =
      known !== undefined && random.chance(0.4) ? known + random.pick([0, 0, 1, -1]) : null;
    const command = {
      sensor,
      ...(expected === null ? {} : { expected_state_version: expected }),
    };
    switch (operation) {
      case "pause":
        return this.#change(operation, pauseSensor(command), expected);
      case "resume":
        return this.#change(operation, resumeSensor(command), expected);
      case "reset": {
        // Not beyond what was ever seen: that would leave items out.
        const cursor = random.pick([null, "0"]);
        const decide = resetCursor({ ...command, sensor: "items", cursor });
        return this.#change(operation, decide, sensor === "items" ? expected : null);
      }
      case "evaluate":
      case "tryOut":
        return this.#evaluate(operation === "tryOut");
      default:
        return operation satisfies never;
    }
  }

  async #change(
    operation: string,
    decide: Decide<SensorChanged>,
    expected: number | null,
  ): Promise<void> {
    const result = await this.#client.submit(operation, decide, expected);
    if (result === null) return;
    this.#versions.set(result.name, result.state_version);
    if (expected !== null && result.state_version !== expected + 1) {
      this.#world.broken("I7", `${operation} of ${result.name} expected version ${expected}`);
    }
  }

  async #evaluate(dry_run: boolean): Promise<void> {
    const { network, newId } = this.#world;
    const request = { sensor: "items", request_id: newId(), dry_run, message: null };
    try {
      const { probe_id } = await network.ask((engine) => engine.requestEvaluation(request));
      await network.ask((engine) => engine.awaitEvaluation(probe_id, 3_000));
    } catch (error) {
      this.#client.checkError(error);
    }
  }
}
