import { parentPort, workerData } from "node:worker_threads";
import { connectWorker } from "../client/worker-connection.ts";
import { present } from "../kernel/errors.ts";
import { systemClock } from "./outbox.ts";
import { type KeeperCall, type KeeperNews, type KeeperStart, LeaseKeeper } from "./lease-keeper.ts";

/*
 * The thread that renews leases while the process's main thread belongs to the user's code. It ends
 * with its process, and renews nothing beyond a task's timeout, so it keeps no dead work alive.
 */

const port = present(parentPort, "this file runs as a thread");
const { address, workerId } = workerData as KeeperStart;

const keeper = new LeaseKeeper({
  connection: connectWorker(address),
  workerId,
  clock: systemClock,
  random: Math.random,
  tell: say,
});

port.on("message", (call: KeeperCall) => {
  switch (call.type) {
    case "hold":
      keeper.hold(call.lease);
      break;
    case "hold look":
      keeper.holdLook(call.look);
      break;
    case "settle":
      keeper.settle(call.ids);
      break;
    case "progress":
      keeper.progress(call.id, call.progress);
      break;
  }
});
say({ type: "ready" });

function say(news: KeeperNews): void {
  port.postMessage(news);
}
