import { receiveMessages } from "../../src/work/sensor/commands.ts";
import { nodeHash } from "../../src/engine/config.ts";
import { PUSH_SENSORS } from "./draw-sensors.ts";
import { type ClientWorld, SimulatedClient } from "./simulated-client.ts";

/** A message that a server said it keeps. */
export type KeptMessage = { sensor: string; message_id: string };

/** What senders need from the simulation around them. */
export type SenderWorld = ClientWorld & {
  kept: (message: KeptMessage) => void;
};

const IDS_MAX = 12;

/** Delivers messages again and again, some of them the same as other senders. */
export class SimulatedSender {
  readonly #world: SenderWorld;
  readonly #client: SimulatedClient;

  constructor(world: SenderWorld, principal: string) {
    this.#world = world;
    this.#client = new SimulatedClient(world, principal);
  }

  /** Sends so many messages, each until it is kept, and then perhaps many times more. */
  async run(messages: number): Promise<void> {
    const { time, random, isOver } = this.#world;
    for (let sent = 0; sent < messages && !isOver(); sent++) {
      await time.sleep(random.integer(0, 4_000));
      const sensor = random.pick(PUSH_SENSORS);
      const n = random.integer(1, IDS_MAX);
      const again = random.pick([0, 0, 1, 3, 19]);
      for (let attempt = 0; attempt < 10 && !isOver(); attempt++) {
        if (await this.#deliver(sensor, n)) break;
        await time.sleep(random.integer(10, 2_000));
      }
      for (let count = 0; count < again && !isOver(); count++) {
        await this.#deliver(sensor, n);
        if (random.chance(0.3)) await time.sleep(random.integer(0, 1_000));
      }
    }
  }

  /** Delivers once; answers whether it was acknowledged. */
  async #deliver(sensor: string, n: number): Promise<boolean> {
    const message_id = `m-${n}`;
    const messages = [
      {
        message_id,
        source: "webhook" as const,
        type: null,
        attributes: {},
        payload: { n },
        published_at: null,
        payload_digest: nodeHash.sha256(String(n)),
      },
    ];
    const decide = receiveMessages({ sensor, messages });
    const received = await this.#client.submit("message", decide, null);
    if (received === null) return false;
    this.#world.kept({ sensor, message_id });
    return true;
  }
}
