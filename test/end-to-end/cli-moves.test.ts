import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type {
  MoveDetails,
  MoveSegmentDetails,
  MoveSegmentDocument,
} from "../../src/work/move/api.ts";
import { CliProject } from "./cli-project.ts";
import { makeShards, rowsOf, run, SHARD_CONFIG } from "./shard-files.ts";

// Many commands have workers, and are run on a busy machine.
const project = new CliProject();
const { folder } = project;

beforeAll(() => {
  project.write("pawl.config.ts", SHARD_CONFIG);
  makeShards(folder, ["mover", "stays"]);
});

afterAll(() => project.remove());

const move = (...args: string[]) => ["move", ...args] as const;
const status = (ref = "spread") => project.json<MoveDetails>(...move("status", ref));

describe("pawl move", () => {
  test("says how to make what lists lack, and what is wrong with a wish", async () => {
    expect(await project.said(...move("list"))).toContain("`pawl move plan` plans one");
    expect(await project.refused(3, ...move("status", "spread"))).toContain("There is no move");
    expect(await project.refused(3, ...move("plan", "nope"))).toContain("no definition of a move");
    expect(await project.refused(2, ...move("plan"))).toContain("--file with a plan");
    expect(await project.refused(2, ...move("plan", "--file", "nope.json"))).toContain(
      "no plan in",
    );
    project.write("wrong.json", JSON.stringify({ from: { by: "hash" } }));
    expect(await project.refused(2, ...move("plan", "--file", "wrong.json"))).toContain(
      "body.plan.from.buckets is missing",
    );
  });

  test("looks how large one would be, and copies nothing", async () => {
    const looked = await project.said(...move("plan", "spread", "--dry-run"));
    expect(looked).toMatch(/^users +tenant +a +b$/m);
    expect(looked).toContain("100 rows in 6 segments. Once all of it is copied and verified");
    expect(looked).toContain("rows are removed from the shards that they leave");
    expect(rowsOf(folder, "mover")).toEqual({ a: 100, b: 0, c: 0 });
    expect(await project.refused(4, ...move("start", "spread"))).toContain("dry run");
  });

  test("plans one, says what it will do, and sets aside what is in the way", async () => {
    run(folder, "b", "insert into users values (25, 'mover', 'a stranger')");
    const planned = await project.said(...move("plan", "spread"));
    expect(planned).toMatch(/^Planned move spread \(\w{26}\)\./);
    expect(planned).toMatch(/Then: pawl move start \w{8}$/m);
    const { move_id, state_version } = await status();
    const stale = ["start", move_id, "--expected-state-version", String(state_version + 1)];
    expect(await project.refused(4, ...move(...stale))).toContain("Look at it again");
    const tuned = await project.said(...move("retune", move_id, "--concurrency", "2"));
    expect(tuned).toContain("was retuned");
    const stuck = await project.refused(1, ...move("start", move_id.slice(-8), "--wait"));
    expect(stuck).toMatch(/cannot go on: 1 segment was quarantined; see `pawl move inspect \w{8}`/);
    expect(rowsOf(folder, "mover")).toMatchObject({ a: 100 });
  });

  test("inspects what was quarantined, and tries it again once that is put right", async () => {
    const listed = await project.said(...move("inspect", "spread", "--state", "poisoned"));
    expect(listed).toMatch(/^ +1 {2}POISONED {2}users +a +b +\S+ … /m);
    const { items } = await project.json<{ items: MoveSegmentDocument[] }>(
      ...move("inspect", "spread", "--state", "poisoned"),
    );
    const index = String(items[0]?.segment_index);
    const segment = await project.json<MoveSegmentDetails>(...move("inspect", "spread", index));
    expect(segment).toMatchObject({ state: "POISONED", attempts: 1 });
    expect(segment.runs).toHaveLength(1);
    const shown = await project.said(...move("inspect", "spread", index));
    expect(shown).toMatch(/^last error +.+$/m);
    expect(shown).toMatch(/^run_\w+ +copy +FAILED /m);
    expect(await project.refused(2, ...move("exclude", "spread", index))).toContain("--reason");
    expect(await project.refused(2, ...move("retry", "spread", "one"))).toContain("index");
    run(folder, "b", "delete from users where name = 'a stranger'");
    const again = await project.said(...move("recopy", "spread", index, "--reason", "put right"));
    expect(again).toContain(`copies segment ${index} again`);
  });

  test("is paused, resumed, and watched until every row is where it belongs", async () => {
    const { move_id } = await status();
    expect(await project.said(...move("pause", "spread", "--reason", "wait"))).toContain(
      "is PAUSED",
    );
    expect(await project.said(...move("status", "spread"))).toMatch(/^reason +wait$/m);
    const done = await project.said(...move("resume", move_id, "--wait"));
    expect(done).toContain("✓ survey  ✓ copy  ✓ remove  ✓ check  ✓ done");
    expect(done).toMatch(/^check +every row is where it belongs$/m);
    expect(rowsOf(folder, "mover")).toEqual({ a: 0, b: 100, c: 0 });
    expect(rowsOf(folder, "stays")).toEqual({ a: 100, b: 0, c: 0 });
    const watched = await project.json<MoveDetails>(...move("watch", "spread"));
    expect(watched).toMatchObject({ state: "COMPLETE", rows_copied: 100, rows_removed: 100 });
    const listed = await project.said(...move("list", "--status", "complete"));
    expect(listed).toMatch(/^\w{8} {2}spread {2}COMPLETE {2}done +100\.0% +6 +100 +0 /m);
  });

  test("verifies it as often as one likes, and fails when a row is where it does not belong", async () => {
    const well = await project.said(...move("verify", "spread", "--wait"));
    expect(well).toMatch(/^check +every row is where it belongs$/m);
    run(folder, "a", "insert into users values (9999, 'mover', 'left behind')");
    const wrong = await project.pawl([...move("verify", "spread", "--wait")]);
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toMatch(/^check +.*1 of users on a/m);
  });

  test("plans one from a file, and cancels it", async () => {
    const plan = {
      from: { by: "tenant", tenants: {}, default: "a" },
      to: { by: "hash", buckets: ["a", "b", "c"] },
      keep_source: true,
    };
    project.write("plan.json", JSON.stringify(plan));
    const planned = await project.said(...move("plan", "--file", "plan.json"));
    expect(planned).toContain("and by hash (3 buckets) after");
    expect(planned).toContain("Rows stay on the shards that they come from as well.");
    const id = /Then: pawl move start (\w{8})/.exec(planned)?.[1] ?? "";
    const cancelled = await project.said(...move("cancel", id));
    expect(cancelled).toContain("is CANCELLED. It ends it for good");
    expect(await project.refused(1, ...move("watch", id))).toContain("is CANCELLED");
  });
});
