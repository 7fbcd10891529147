import { expect, test } from "vitest";
import { SensorServer } from "../../../test/sensor-server.ts";
import { NotificationSender } from "./sender.ts";

/** Resolves so many microtasks later. */
async function microtasks(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await Promise.resolve();
}

test("a wish to look is granted, also one that comes just when a look ends", async () => {
  const server = await SensorServer.start();
  const { store, engine } = server;
  const now = store.now.bind(store);
  for (let later = 0; later < 12; later++) {
    const sender = new NotificationSender({
      store,
      engine,
      outlets: { allowedHosts: [], mail: null },
      warn: () => {},
    });
    let looks = 0;
    // Where there is no webhook, asking for the time is the last thing that a look does.
    store.now = async () => {
      const time = await now();
      looks += 1;
      if (looks === 1) void microtasks(later).then(() => sender.wake());
      return time;
    };
    await sender.settled();
    await server.quiet();
    store.now = now;
    expect(looks, `${later} microtasks later`).toBe(2);
    await sender.stop();
  }
  await server.close();
});
