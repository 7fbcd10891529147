import { expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../test/properties/ledger-world.ts";
import { claimTasks } from "./claim-tasks.ts";
import { requestRun } from "./request-run.ts";

test("I76: holders are looked up no more often for many suspected tasks than for a few", () => {
  const world = new LedgerWorld();
  const assets = Array.from({ length: 60 }, (_, index) => `a${index}`);
  const retry = { jitter: 0, delay_ms: 1_000 };
  world.publish(...assets.map((asset_key) => ({ asset_key, retry })));
  const request = (id: string): void => {
    for (const asset of assets) {
      world.submit(requestRun({ request_id: `${id}-${asset}`, assets: [asset] }));
    }
  };
  const claim = (alone: boolean) => {
    const worker = { worker_id: "w", lease_id: "l", code_version: null, wait_ms: 0 };
    const asked = { ...worker, slots: 100, assets, alone };
    return world.submit(claimTasks(asked, undefined, () => null));
  };

  request("suspect");
  const error = { class: "crash", message: "it ended with the exit code 3." };
  for (const ref of refsOf(claim(false).groups)) {
    world.report({ ...ref, outcome: "FAILED", error, crashed: true });
  }
  request("holder");
  expect(claim(false).tasks).toHaveLength(60);
  world.pass(600_000);
  expect(world.lookUpsOf(() => expect(claim(true).tasks).toEqual([]))).toBeLessThan(20);
});
