import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type {
  SplitDocument,
  SplitStepDocument,
  CutoverTransition,
  SplitTransition,
} from "../../src/work/split/api.ts";
import { CliProject, type Running } from "./cli-project.ts";
import { makeShards, rowsOf, run, SHARD_CONFIG } from "./shard-files.ts";

// Many commands have workers, and are run on a busy machine.
const project = new CliProject();
const { folder } = project;
let server: Running;

beforeAll(() => {
  project.write("pawl.config.ts", SHARD_CONFIG);
  makeShards(folder, ["acme", "beta"]);
});

afterAll(() => project.remove());

const split = (...args: string[]) => ["split", ...args] as const;
const routing = (...args: string[]) => ["routing", ...args] as const;
const show = (id: string) =>
  project.json<SplitDocument & { steps: SplitStepDocument[] }>(...split("show", id));

/** Waits until both shards were looked at, and the split can begin. */
const surveyed = (id: string) =>
  vi.waitFor(async () => {
    const { commands } = (await show(id)).next;
    expect(commands).toContainEqual(expect.objectContaining({ command: "start-dual-write" }));
  }, 600_000);

async function plan(tenant: string, ...more: string[]): Promise<string> {
  const args = ["plan", tenant, "--from", "a", "--to", "b", ...more];
  return (await project.json<SplitTransition & { id?: string }>(...split(...args))).split_id;
}

describe("pawl routing", () => {
  test("says how to begin, sets a default and routes, and shows them", async () => {
    expect(await project.said(...routing("show"))).toContain(
      "`pawl routing set --default <shard>`",
    );
    expect(await project.refused(3, ...routing("route", "acme"))).toContain("is on no shard");
    const set = await project.said(
      ...routing("set", "--default", "a", "x=1=c", "--expected-state-version", "0"),
    );
    expect(set).toBe("The routing is at version 1.\n");
    const shown = await project.said(...routing("show"));
    expect(shown).toMatch(/^default {2}a, epoch 1$/m);
    expect(shown).toMatch(/^tenants {2}1 with a route: 1 on c$/m);
    expect(shown).toMatch(/^x=1 +c +1 /m);
    expect(await project.said(...routing("route", "acme"))).toBe(
      "acme is on a (epoch 1; the routing is at version 1).\n",
    );
  });

  test("refuses another version, a shard that is not there, and what is no route", async () => {
    const stale = ["set", "y=b", "--expect", "7"];
    expect(await project.refused(4, ...routing(...stale))).toContain("is at version 1, not 7");
    expect(await project.refused(3, ...routing("set", "y=nope"))).toContain("There is no shard");
    expect(await project.refused(2, ...routing("set", "y"))).toContain("such as acme=shard-a");
    const history = await project.said(...routing("history"));
    expect(history).toMatch(/^ +1 .+ by hand .+ default → a, x=1: default → c +-$/m);
  });
});

describe("pawl split", () => {
  let id = "";

  test("says how to make what lists lack, and what is missing in a plan", async () => {
    expect(await project.said(...split("list"))).toContain("`pawl split plan` plans one");
    expect(await project.refused(2, ...split("plan", "acme", "--to", "b"))).toContain("--from");
    expect(await project.refused(3, ...split("show", "01HZ0000000000000000000000"))).toContain(
      "There is no split",
    );
    const nowhere = ["plan", "x=1", "--from", "a", "--to", "b"];
    expect(await project.refused(4, ...split(...nowhere))).toContain("it is routed to c");
  });

  test("plans one without a server, compares both shards, and fails when they do not fit", async () => {
    run(folder, "b", "alter table users add column age integer");
    id = await plan("acme", "--grace", "0s", "--description", "too full");
    const planned = await project.said(...split("status", id));
    expect(planned).toContain("▶ planning  · dual_write");
    const until = ["watch", id, "--until", "dual-write"];
    expect(await project.refused(1, ...split(...until))).toContain("is in the phase planning");
    expect(await project.said(...split("status", id))).toMatch(
      /^The schemas of a and b do not match: /m,
    );
    expect(await project.refused(4, ...split("start-dual-write", id))).toContain(
      "pawl split resume",
    );
    run(folder, "b", "alter table users drop column age");
    await project.said(...split("resume", id));
  });

  test("arms, copies and catches up, each waited for", async () => {
    server = project.launch(["start", "--port", "0"]);
    await server.said("listens on");
    await surveyed(id);
    const armed = await project.said(...split("start-dual-write", id.slice(-8), "--wait"));
    expect(armed).toContain("✓ planning  ▶ dual_write");
    await server.said(`"split_id":"${id}","phase":"dual_write","from_phase":"planning"`);
    const copied = await project.said(...split("run-backfill", id, "--wait"));
    expect(copied).toMatch(/▶ cutover_pending {2}· reversible/);
    expect(copied).toMatch(/^users +50 {2}all$/m);
    expect(copied).toMatch(/^verification +all equal: 100 rows/m);
    expect(copied).toContain("pawl split cutover: holds the writes of the tenant for a moment");
    expect(rowsOf(folder, "acme")).toEqual({ a: 100, b: 100, c: 0 });
  });

  test("says in a dry run whether it is ready, and refuses another version", async () => {
    const ready = await project.said(...split("cutover", id, "--dry-run"));
    expect(ready).toMatch(/^✓ verification: 100 rows in \d+ ranges are equal on both sides\.$/m);
    expect(ready).toContain("is ready to cut over.");
    const { checks } = await project.json<CutoverTransition>(...split("cutover", id, "--dry-run"));
    expect(checks?.every(({ ok }) => ok)).toBe(true);
    const stale = ["cutover", id, "--expected-state-version", "1"];
    expect(await project.refused(4, ...split(...stale))).toContain("not 1");
  });

  test("cuts over, shows the write pause, changes the schema, and completes", async () => {
    const served = await project.said(...split("cutover", id, "--wait", "--reason", "now"));
    expect(served).toMatch(/✓ cutover_pending {2}▶ reversible {2}· completed/);
    expect(served).toMatch(/^write pause +[\d.]+ ms$/m);
    expect(await project.said(...routing("route", "acme"))).toContain("acme is on b (epoch 2");
    const ddl = "alter table orders add column note text";
    await project.said(...split("ddl", id, ddl, "--wait"));
    const bad = "alter table orders drop column nope";
    expect(await project.refused(1, ...split("ddl", id, bad, "--wait"))).toContain("nope");
    const elsewhere = "alter table payroll add x";
    expect(await project.refused(2, ...split("ddl", id, elsewhere))).toContain("payroll");
    const completed = await project.said(...split("complete", id, "--wait"));
    expect(completed).toContain("✓ completed");
    const { steps, phase } = await show(id);
    expect(phase).toBe("completed");
    expect(steps.map(({ step }) => step)).toEqual(expect.arrayContaining(["cutover", "finish"]));
    await vi.waitFor(() => expect(rowsOf(folder, "acme")).toEqual({ a: 0, b: 100, c: 0 }), 600_000);
    const text = await project.said(...split("show", id));
    expect(text).toMatch(/^routing +version 1 when planned, 2 by the cutover$/m);
    expect(text).toMatch(/^ +\d+ {2}cutover +SUCCEEDED +done /m);
    expect(await project.refused(4, ...split("rollback", id))).toContain("completed");
  });

  test("rolls one back before its cutover, and lists by phase", async () => {
    const other = await plan("beta", "--auto-cutover", "--lag-limit", "1ms");
    await surveyed(other);
    await project.said(...split("start-dual-write", other, "--wait"));
    const back = await project.said(...split("rollback", other, "--wait", "--reason", "later"));
    expect(back).toContain("Rolled back; a serves the tenants.");
    expect(back).toMatch(/^backfill +pending, 0 rows copied$/m);
    expect(back).toMatch(/^tail +pending$/m);
    expect(back).toContain("pawl split start-dual-write: runs the plan again");
    const listed = await project.said(...split("list", "--phase", "rolled-back,planning"));
    expect(listed).toMatch(/^\w{8} {2}rolled_back {2}a +b +1 /m);
    expect(await project.said(...split("status"))).toContain("There are no such splits");
    const ended = await project.json<SplitDocument>(...split("watch", other));
    expect(ended.phase).toBe("rolled_back");
    expect(await project.refused(1, ...split("watch", other, "--until", "reversible"))).toContain(
      "is rolled_back",
    );
  });

  test("I56: runs one again that was rolled back, by the commands of the first time", async () => {
    const again = await plan("beta");
    await surveyed(again);
    for (const round of [1, 2]) {
      await project.said(...split("start-dual-write", again, "--wait"));
      await project.said(...split("run-backfill", again, "--wait"));
      await project.said(...split("cutover", again, "--wait"));
      expect(await project.said(...split("run-backfill", again, "--wait"))).toContain(
        "▶ reversible",
      );
      expect(await show(again)).toMatchObject({
        routing_version_cutover: 1 + 2 * round,
        backfill: { status: "completed", total_rows_copied: 100 },
      });
      const back = await project.said(...split("rollback", again, "--wait"));
      expect(back).toMatch(/^backfill +pending, 0 rows copied$/m);
      expect(rowsOf(folder, "beta")).toMatchObject({ a: 100, b: 0 });
    }
  });

  test("ends with its server", async () => {
    server.child.kill("SIGTERM");
    expect((await server.ended).code).toBe(0);
  });
});
