import {
  pauseSchedule,
  resumeSchedule,
  type ScheduleChanged,
  triggerSchedule,
} from "../../src/work/schedule/commands.ts";
import {
  createEntity,
  deleteEntity,
  type EntityPut,
  updateEntity,
} from "../../src/work/definition/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { drawSchedule } from "./draw-schedule.ts";
import { type ClientWorld, SimulatedClient } from "./simulated-client.ts";

/** What operators need from the simulation around them. */
export type OperatorWorld = ClientWorld & { newId: () => string };

/** Names of schedules that code defines, and of those that are made here. */
export const CODE_SCHEDULES = ["code/one", "code/two"] as const;
const OWN_SCHEDULES = ["one", "two", "three"] as const;

const OPERATIONS = { create: 8, update: 5, delete: 2, pause: 4, resume: 6, trigger: 4 };

/** Somebody who makes, changes, stops and starts schedules, also by versions that have passed. */
export class SimulatedOperator {
  readonly #world: OperatorWorld;
  readonly #client: SimulatedClient;
  /** Versions that some answer named, by name of the schedule. */
  readonly #versions = new Map<string, number>();
  /** Ids of schedules that were made, and perhaps deleted. */
  readonly #ids: string[] = [];

  constructor(world: OperatorWorld, principal: string) {
    this.#world = world;
    this.#client = new SimulatedClient(world, principal);
  }

  /** Does so many things, with pauses in between. */
  async run(operations: number): Promise<void> {
    const { time, random, isOver } = this.#world;
    for (let done = 0; done < operations && !isOver(); done++) {
      await time.sleep(random.integer(0, 5_000));
      await this.#act();
    }
  }

  /** Stops a schedule, and asks again until it is. */
  async pause(schedule: string): Promise<void> {
    for (let attempt = 0; attempt < 100; attempt++) {
      if ((await this.#client.submit("pause", pauseSchedule({ schedule }), null)) !== null) return;
      await this.#world.time.sleep(500);
    }
  }

  async #act(): Promise<void> {
    const { random } = this.#world;
    const operation = random.weighted(OPERATIONS);
    if (operation === "create") return this.#create();
    const schedule = this.#drawName();
    const known = this.#versions.get(schedule);
    const expected =
      known !== undefined && random.chance(0.5) ? known + random.pick([0, 0, 0, 1, -1]) : null;
    const version = expected === null ? {} : { expected_state_version: expected };
    const command = { schedule, ...version };
    switch (operation) {
      case "pause":
        return this.#change(operation, pauseSchedule(command), expected);
      case "resume":
        return this.#change(operation, resumeSchedule(command), expected);
      case "trigger":
        await this.#client.submit(operation, triggerSchedule(command), null);
        return;
      case "update": {
        const spec = drawSchedule(random, schedule);
        const change = { id: schedule, ...version };
        const decide = updateEntity("schedule", change, ({ name }) => ({ ...spec, name }));
        return this.#learn(operation, await this.#client.submit(operation, decide, null), expected);
      }
      case "delete": {
        const decide = deleteEntity("schedule", { id: schedule, ...version });
        return this.#learn(operation, await this.#client.submit(operation, decide, null), expected);
      }
      default:
        return operation satisfies never;
    }
  }

  /** By name mostly; by an id that may be of a schedule that is gone. */
  #drawName(): string {
    const { random } = this.#world;
    if (this.#ids.length > 0 && random.chance(0.3)) return random.pick(this.#ids);
    return random.pick([...CODE_SCHEDULES, ...OWN_SCHEDULES, ...OWN_SCHEDULES]);
  }

  async #create(): Promise<void> {
    const { random, newId } = this.#world;
    const spec = drawSchedule(random, random.pick(OWN_SCHEDULES));
    const key = newId();
    const made = await this.#client.idempotent("create", key, spec, createEntity(spec));
    this.#learn("create", made as EntityPut | null, null);
  }

  async #change(
    operation: string,
    decide: Decide<ScheduleChanged>,
    expected: number | null,
  ): Promise<void> {
    const result = await this.#client.submit(operation, decide, expected);
    if (result === null) return;
    this.#learn(operation, { ...result, id: result.schedule_id }, expected);
  }

  #learn(
    operation: string,
    put: Pick<EntityPut, "id" | "name" | "state_version"> | null,
    expected: number | null,
  ): void {
    if (put === null) return;
    const { id, name, state_version } = put;
    for (const each of [id, name]) this.#versions.set(each, state_version);
    if (!this.#ids.includes(id)) this.#ids.push(id);
    // An update that changes nothing leaves the version, and one that switches adds two.
    const most = operation === "update" ? 2 : 1;
    const least = operation === "update" ? 0 : 1;
    if (expected === null) return;
    const added = state_version - expected;
    if (added < least || added > most) {
      this.#world.broken("I7", `${operation} of ${name} expected version ${expected}`);
    }
  }
}
