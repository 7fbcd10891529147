import type { EventData } from "../../src/work/events.ts";
import type { SensorRow } from "../../src/work/sensor/rows.ts";
import { TABLES } from "../../src/work/tables.ts";
import type { Store, Workspace } from "../../src/store/store.ts";
import type { ClientWorld } from "./simulated-client.ts";
import { SimulatedOperator } from "./simulated-operator.ts";
import { SimulatedProber } from "./simulated-prober.ts";
import { type KeptMessage, SimulatedSender } from "./simulated-sender.ts";
import { SimulatedSensorOperator } from "./simulated-sensor-operator.ts";
import { busySchedules, overdueSchedules } from "./unfinished-work.ts";

/** What automation needs from the simulation around it. */
export type AutomationWorld = ClientWorld & { newId: () => string; isEnd: () => boolean };

/** Which kinds of automation a simulation has. */
export type AutomationKinds = { schedules: boolean; sensors: boolean };

/** How long it takes until a server that is down at the end of faults is up, and has looked around. */
const RECOVERY_MS = 12_000;
const STOP_MS_MAX = 5 * 60_000;
const ITEMS_MAX = 12;

/** Schedules and sensors of one simulation, and everybody who has to do with them. */
export class SimulatedAutomation {
  readonly has: AutomationKinds;
  /** Messages that somebody was told are kept. */
  readonly kept: KeptMessage[] = [];
  /** Items of the list that a sensor looks at. */
  items = 0;
  readonly #world: AutomationWorld;

  constructor(world: AutomationWorld, has: AutomationKinds) {
    this.#world = world;
    this.has = has;
  }

  /** Lets everybody begin; resolves when those who act by themselves have done their share. */
  async run(operations: number): Promise<void> {
    const { random } = this.#world;
    const acting: Promise<void>[] = [];
    if (this.has.schedules) {
      acting.push(new SimulatedOperator(this.#forked(), "eve").run(operations * 2));
    }
    if (this.has.sensors) {
      acting.push(new SimulatedSensorOperator(this.#forked(), "fay").run(operations));
      for (const name of ["gus", "hal"]) {
        const world = {
          ...this.#forked(),
          kept: (message: KeptMessage) => this.kept.push(message),
        };
        acting.push(new SimulatedSender(world, name).run(random.integer(1, 5)));
      }
      for (let count = 0; count < 2; count++) this.#startProber();
      this.#grow();
    }
    await Promise.all(acting);
  }

  /** Faults have stopped: what is due is looked at, then whatever would never end is stopped. */
  async settle(store: Store, workspace: Workspace): Promise<void> {
    const { time, broken } = this.#world;
    // Until then a slow call may hold the store, and time has to pass for it to end.
    await time.run(time.now + RECOVERY_MS);
    if (this.has.schedules) {
      const overdue = await overdueSchedules(store, workspace);
      if (overdue.length > 0) broken("I37", overdue.join("; "));
      const operator = new SimulatedOperator(this.#forked(), "eve");
      await this.#all(await busySchedules(store, workspace), (id) => operator.pause(id));
    }
    if (this.has.sensors) {
      const operator = new SimulatedSensorOperator(this.#forked(), "fay");
      const paused = (await this.#sensors(store, workspace)).filter(
        ({ state }) => state === "PAUSED",
      );
      await this.#all(paused, ({ sensor_id }) => operator.resume(sensor_id));
    }
  }

  /** What sensors have not come to although nothing is in their way. */
  async unfinished(store: Store, workspace: Workspace): Promise<string[]> {
    if (!this.has.sensors) return [];
    const sensors = await this.#sensors(store, workspace);
    const left: string[] = [];
    for (const sensor of sensors) {
      const { name, cursor, messages_pending, runs_requested, created_pos } = sensor;
      // Its next look has something to record: that it is well again.
      if (sensor.mode === "poll" && sensor.error !== null) left.push(`sensor ${name} has failed`);
      if (messages_pending > 0) left.push(`sensor ${name} has ${messages_pending} messages`);
      if (name === "items" && Number(cursor ?? 0) !== this.items) {
        left.push(`sensor ${name} is at ${cursor} of ${this.items}`);
      }
      if (name !== "made") continue;
      const made = await materializedSince(store, workspace, created_pos);
      if (runs_requested !== made) left.push(`sensor ${name} asked for ${runs_requested}/${made}`);
    }
    return left;
  }

  /** Does something for each, while time passes. */
  async #all<Each>(list: readonly Each[], act: (each: Each) => Promise<void>): Promise<void> {
    const { time } = this.#world;
    let left = list.length;
    for (const each of list) {
      void act(each).finally(() => {
        left -= 1;
      });
    }
    await time.run(time.now + STOP_MS_MAX, () => left === 0);
  }

  async #sensors(store: Store, { ws }: Workspace): Promise<SensorRow[]> {
    const find = { table: TABLES.sensors, where: [], order: [], limit: 1_000 };
    return store.read(ws, (reader) => reader.find(find));
  }

  #startProber(): void {
    const world = this.#forked();
    const { isOver, isEnd } = this.#world;
    const prober = new SimulatedProber({
      ...world,
      isCalm: isOver,
      isOver: isEnd,
      items: () => this.items,
    });
    void prober.run();
  }

  #grow(): void {
    const { time, random, isOver } = this.#world;
    time.schedule(random.integer(200, 5_000), () => {
      if (isOver() || this.items >= ITEMS_MAX) return;
      this.items += random.integer(1, 3);
      this.#grow();
    });
  }

  #forked(): AutomationWorld {
    return { ...this.#world, random: this.#world.random.fork() };
  }
}

/** How often the watched asset was materialized after a position. */
async function materializedSince(store: Store, { ws }: Workspace, after: number): Promise<number> {
  const types = ["TasksFinished"] as const;
  const events = await store.read(ws, (reader) => reader.events({ after, types, limit: 100_000 }));
  return events
    .flatMap(({ data }) => (JSON.parse(data) as EventData<"TasksFinished">).results)
    .filter(({ asset_key, outcome }) => asset_key === "lone" && outcome === "SUCCEEDED").length;
}
