import process from "node:process";
import { LiveLoad, type LoadOptions } from "./live-load.ts";

/*
 * A process that writes for tenants through a router, until it is told to stop. Forked by
 * `startLoad`, which sends the options first.
 */

/** What the process is told. */
export type ToLoad = { type: "start"; options: LoadOptions } | { type: "stop" } | { type: "say" };

let load: LiveLoad | null = null;

process.on("disconnect", () => process.exit(0));
process.on("message", (message: ToLoad) => {
  void hear(message).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
});

async function hear(message: ToLoad): Promise<void> {
  switch (message.type) {
    case "start":
      load = new LiveLoad(message.options);
      load.start();
      process.send?.({ type: "started" });
      return;
    case "say":
      process.send?.({ type: "said", said: load?.said() });
      return;
    case "stop":
      // Only when it is out: the books are long.
      process.send?.({ type: "stopped", said: await load?.stop() }, () => process.disconnect());
      return;
  }
}
