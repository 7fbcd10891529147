import Database from "better-sqlite3";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { Random } from "../simulation/random.ts";
import {
  killAll,
  openSite,
  PawlProcess,
  removeSite,
  runCommand,
  type Site,
  startServer,
  until,
  untilReady,
} from "./pawl-process.ts";
import { databaseFile, verifiedHash } from "./stored-ledger.ts";

const REQUESTS = 3_000;
const AT_ONCE = 60;
const KILLS = 6;
const TRIES_MAX = 30;

let site: Site;
let hash: string;

beforeAll(async () => {
  site = await openSite();
  const server = startServer(site);
  await untilReady(server);
  const client = createClient({ url: site.url });
  let next = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < REQUESTS) {
        const key = `item-${next++}`;
        const params = { asset_key: "items" };
        await client.call("addPartitionKeys", { params, body: { keys: [key] } });
      }
    }),
  );
  const selector = { type: "range" as const, start: "2020-01-01", end: "2020-01-20" };
  const body = { assets: ["raw", "clean", "totals"], selector };
  const { backfill_id } = await client.call("createBackfill", { body });
  await until(async () => {
    const { state } = await client.call("getBackfill", { params: { backfill_id } });
    return state === "SUCCEEDED";
  });
  await server.terminate();
  hash = await verifiedHash(site);
});

afterAll(async () => {
  await killAll();
  removeSite(site);
});

/** Whether a transaction that writes is open in another process. */
function isWriting(probe: Database.Database): boolean {
  try {
    probe.exec("begin immediate");
    probe.exec("rollback");
    return false;
  } catch {
    return true;
  }
}

describe("pawl rebuild", () => {
  test("I12, I13: leaves the rows as they were when it is killed half-way", async () => {
    const random = new Random(Date.now());
    let kills = 0;
    for (let tries = 0; kills < KILLS && tries < TRIES_MAX; tries++) {
      const rebuild = new PawlProcess(site, ["rebuild", "--batch", "1"]);
      const probe = new Database(databaseFile(site), { timeout: 0 });
      await until(() => rebuild.hasExited || isWriting(probe));
      await sleep(random.integer(0, 80));
      // Once it has ended, or is between two transactions, a kill would prove nothing.
      if (isWriting(probe)) kills++;
      await rebuild.kill();
      probe.close();

      expect(await verifiedHash(site)).toBe(hash);
    }
    expect(kills).toBe(KILLS);
  });

  test("I12: ends with the rows that there were before", async () => {
    expect(await runCommand(site, ["rebuild"])).toMatchObject({ code: 0 });
    expect(await verifiedHash(site)).toBe(hash);
    expect(await runCommand(site, ["verify"])).toMatchObject({ code: 0 });
  });
});
