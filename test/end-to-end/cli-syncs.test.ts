import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SyncTransition } from "../../src/work/sync/api.ts";
import type { SegmentDocument, SyncDocument, SyncOverview } from "../../src/work/sync/documents.ts";
import { CliProject } from "./cli-project.ts";

// Many commands have workers, and are run on a busy machine.
// What a source does is told by files in the project's folder, which tests write and remove.
const CONFIG = `import { existsSync, readFileSync } from "node:fs";
  import { definePawl, sync } from "pawl";
  const has = (range, block) => range.from <= block && block <= range.to;
  const transfers = sync("transfers", {
    targets: [{ network: "main", wallet: "0xa" }, { network: "side", wallet: "0xa" }],
    source: "{network}",
    from: 0,
    segments: { max: 20, minSize: 10 },
    finality: 5,
    headEveryMs: 200,
    quarantineAfter: 2,
    retry: { delayMs: 50 },
    head: async () => (existsSync("head") ? Number(readFileSync("head", "utf8")) : 1_004),
    fetch: async (range) => {
      if (existsSync("bad") && has(range, 333)) throw new Error("No such block.");
      return { rows: range.to - range.from + 1 };
    },
    verify: async (range) => {
      while (existsSync("hang")) await new Promise((resolve) => setTimeout(resolve, 50));
      return existsSync("wrong") && has(range, 500) ? { ok: false, note: "A row is missing." } : true;
    },
  });
  const fixed = sync("fixed", { targets: [{ shop: "a" }], from: 1, to: 40, fetch: async () => undefined });
  export default definePawl({ syncs: [transfers, fixed] });`;

const MAIN = "transfers@network=main,wallet=0xa";

const project = new CliProject();
beforeAll(() => {
  project.write("pawl.config.ts", CONFIG);
  project.write("bad", "");
});
afterAll(() => project.remove());

const sync = (...args: string[]) => ["sync", ...args] as const;
const clear = (name: string) => rmSync(join(project.folder, name));

describe("pawl sync", () => {
  let id = "";

  test("says how to make what lists lack", async () => {
    expect(await project.said(...sync("list"))).toContain("`sync()` in pawl.config.ts defines one");
    expect(await project.said(...sync("overview"))).toContain("There are no syncs");
    expect(await project.said(...sync("quarantine"))).toBe("Nothing is quarantined.\n");
  });

  test("watches one until it is complete, which needs no server", async () => {
    const said = await project.said(...sync("watch", "fixed"));
    expect(said).toBe(
      "Sync fixed@shop=a COMPLETE: all up to 40 is synced, 1 of 1 segments, 0 rows.\n",
    );
    const shown = await project.said(...sync("show", "fixed"));
    expect(shown).toMatch(/^range +1 to 40, 40 blocks; ends at 40$/m);
    expect(shown).toMatch(/^synced to +40, nothing behind$/m);
    expect(shown).toMatch(/^1 {2}█$/m);
    expect(shown).not.toMatch(/^head/m);
  });

  test("ends a watch when only what was quarantined is left, and lists that", async () => {
    const stuck = await project.refused(1, ...sync("watch", MAIN));
    expect(stuck).toMatch(
      /cannot go on: 1 segment was quarantined; see `pawl sync quarantine \w{8}`/,
    );
    const shown = await project.json<SyncDocument & { segments: SegmentDocument[] }>(
      ...sync("show", MAIN),
    );
    id = shown.sync_id;
    expect(shown).toMatchObject({ synced_to: 332, segments_quarantined: 1, segments_total: 22 });
    expect(shown.segments).toHaveLength(22);
    const ours = ["--network", "main", "--target", "wallet=0xa", "--name", "transfers"];
    const aside = await project.said(...sync("segments", "--status", "quarantined", ...ours));
    expect(aside.split("\n").filter((line) => line.includes("QUARANTINED"))).toHaveLength(1);
    expect(aside).toMatch(/^SYNC +SEGMENT +STATUS +FROM +TO +DONE +RETRIES +UPDATED +NOTE$/m);
    const text = await project.said(...sync("show", id.slice(-8)));
    expect(text).toMatch(/^ {2}0 {2}█{7}Q█{14}$/m);
    expect(text).toMatch(/^█ complete 21 {3}Q quarantined 1$/m);
    expect(text).toMatch(/^synced to +332, 667 blocks behind$/m);
    expect(text).toMatch(/QUARANTINED +333 +333 +0\.0% .+ No such block\.$/m);
    const listed = await project.said(...sync("quarantine", MAIN));
    expect(listed).toMatch(
      /^transfers@network=main,wallet=0xa +\d+ +333 +333 .+ No such block\.$/m,
    );
    expect(listed).toContain("`pawl sync exclude <sync> <segment> --reason <text>`");
  });

  test("tries what was quarantined again, and excludes it with a reason", async () => {
    const [aside] = (await project.json<{ items: SegmentDocument[] }>(...sync("quarantine", id)))
      .items;
    const index = String(aside?.segment_index);
    clear("bad");
    expect(await project.said(...sync("retry", MAIN, index))).toBe(
      `Sync ${MAIN} tries segment ${index} again.\n`,
    );
    expect(await project.said(...sync("watch", MAIN))).toContain("FOLLOWING: all up to 999");
    expect(await project.refused(4, ...sync("exclude", MAIN, index, "--reason", "x"))).toContain(
      "excluding is possible only while it is QUARANTINED",
    );
    expect(await project.refused(2, ...sync("exclude", MAIN, index))).toContain("--reason");
  });

  test("waits for a verification, and fails when something does not pass", async () => {
    const range = ["--from", "450", "--to", "600"];
    const well = await project.said(...sync("verify", MAIN, ...range, "--wait"));
    expect(well).toBe(`Sync ${MAIN}: 4 segments are as the source has them.\n`);
    project.write("wrong", "");
    const wrong = await project.refused(1, ...sync("verify", MAIN, ...range, "--wait"));
    expect(wrong).toMatch(/1 segment of \S+ did not pass: \d+ \(500 to 549\), .*A row is missing/);
    const segments = await project.said(...sync("segments", MAIN, "--verification", "failed"));
    expect(segments).toMatch(/COMPLETE +500 +549 .+ verification failed \(A row is missing\.\)$/m);
    clear("wrong");
  });

  test("repairs exactly a range and waits until it is stored", async () => {
    const range = ["--from", "120", "--to", "129", "--reason", "a disk was lost"];
    const repaired = await project.said(...sync("repair", MAIN, ...range, "--wait"));
    expect(repaired).toContain("FOLLOWING: all up to 999 is synced");
    const { items } = await project.json<{ items: SegmentDocument[] }>(
      ...sync("segments", MAIN, "--from", "100", "--to", "149"),
    );
    expect(
      items.map(({ from_block, to_block, generation }) => [from_block, to_block, generation]),
    ).toEqual([
      [100, 119, 0],
      [120, 129, 1],
      [130, 149, 0],
    ]);
    const outside = ["--from", "5000", "--to", "6000"];
    expect(await project.refused(2, ...sync("repair", MAIN, ...outside))).toContain(
      "has 0 to 999: nothing of the range is there",
    );
  });

  test("adds, lists, pauses, retunes, resumes and removes targets", async () => {
    const target = ["--target", "wallet=0xb", "--target", "network=main"];
    const added = await project.said(...sync("add", "transfers", ...target, "--from", "900"));
    expect(added).toMatch(/^Added sync transfers@network=main,wallet=0xb \(\w{26}\)\.$/m);
    expect(added).toContain("No server is running");
    const own = "transfers@wallet=0xb,network=main";
    const paused = await project.json<SyncTransition>(...sync("pause", own, "--reason", "later"));
    expect(paused).toMatchObject({ state: "PAUSED", target_key: "network=main,wallet=0xb" });
    const listed = await project.said(...sync("list", "--target", "network=main"));
    expect(listed).toMatch(
      /^transfers@network=main,wallet=0xa +FOLLOWING +100\.0% +24\/24 +999 +0 /m,
    );
    expect(listed).toMatch(/^transfers@network=main,wallet=0xb +PAUSED +0\.0% +0\/\d+ +- /m);
    expect(listed).not.toContain("network=side");
    const only = await project.said(...sync("list", "--status", "paused", "--name", "transfers"));
    expect(only).not.toContain("0xa");
    const retuned = await project.said(...sync("retune", own, "--max-parallel", "9"));
    expect(retuned).toContain(`is PAUSED (version ${paused.state_version + 1})`);
    const resumed = await project.said(...sync("resume", own));
    expect(resumed).toMatch(/ is (?:PENDING|RUNNING) \(version \d+\)/);
    const head = await project.said(...sync("set-head", own, "--head", "1004", "--reason", "seen"));
    expect(head).toContain(" is ");
    const stale = ["--expected-state-version", "1"];
    expect(await project.refused(4, ...sync("remove", own, ...stale))).toContain(
      "STATE_VERSION_MISMATCH",
    );
    expect(await project.said(...sync("remove", own))).toContain("was removed");
    expect(await project.said(...sync("list", "--status", "removed"))).toContain("REMOVED");
    expect(await project.refused(2, ...sync("remove", "fixed"))).toContain("is named by code");
  });

  test("shows all of them together", async () => {
    const overview = await project.json<SyncOverview & { sources: unknown[] }>(...sync("overview"));
    expect(overview).toMatchObject({ syncs: 3, names: [{ name: "fixed" }, { name: "transfers" }] });
    expect(overview.sources).toHaveLength(3);
    const text = await project.said(...sync("overview"));
    expect(text).toMatch(/^transfers +2 /m);
    expect(text).toMatch(/^all +3 /m);
    expect(text).toMatch(/^main +transfers +1 +1004 /m);
  });

  test("shows the record of a segment, and the run that fetched it", async () => {
    const events = await project.said("events", "--why", `${id.slice(-8)}:0`);
    expect(events).toMatch(/SyncSegmentsPlanned[\s\S]+RunRequested[\s\S]+RunFinished/);
    const runs = await project.said("run", "list", "--limit", "200");
    expect(runs).toMatch(new RegExp(` sync ${id.slice(-8)}:\\d+ `));
  });

  test("watches one that follows the head until it has what came while nothing ran", async () => {
    project.write("head", "1104");
    expect(await project.said(...sync("watch", MAIN))).toContain("FOLLOWING: all up to 1099");
  });

  test.each<[number, string[], string]>([
    [2, ["show", "transfers"], "transfers has several targets: name one of them, such as"],
    [3, ["show", "transferz"], "did you mean transfers?"],
    [2, ["list", "--target", "network"], "--target: expected key=value"],
    [2, ["list", "--target", "netwrok=main"], "(perhaps network is meant)"],
    [2, ["add", "transfers"], "--target: expected fields such as network=mainnet"],
    [2, ["add", "transfers", "--target", "wallet=0xb"], "has no field"],
    [2, ["segments", "--verification", "failed"], "is about the segments of one sync"],
    [2, ["segments", MAIN, "--network", "x"], "is about all syncs"],
    [2, ["segments", MAIN, "--from", "x"], "--from: expected a whole number from 0"],
    [2, ["repair", MAIN, "--from", "9"], "--to <block>"],
    [2, ["retry", MAIN, "x"], "Expected the index of a segment"],
  ])("refuses with %i to %j", async (code, args, sentence) => {
    expect(await project.refused(code, ...sync(...args))).toContain(sentence);
  });
});

describe("a wait for a sync", () => {
  test("ends when somebody has to decide, and at the first interruption", async () => {
    const server = project.launch(["start", "--port", "0"]);
    await server.said("listens on");
    const target = ["--target", "network=moon", "--target", "wallet=0xc"];
    await project.said(...sync("add", "transfers", ...target));
    const moon = "transfers@network=moon,wallet=0xc";
    await project.said(...sync("watch", moon));
    await project.said(...sync("pause", moon));
    const watching = project.launch(sync("repair", moon, "--from", "0", "--to", "1", "--wait"));
    await watching.said("fetches 1 segment again");
    const { code, stderr } = await watching.ended;
    expect(code).toBe(1);
    expect(stderr).toContain("is PAUSED: 1 of the segments are left");

    project.write("hang", "");
    const waiting = project.launch(sync("verify", moon, "--wait"));
    await waiting.said("to verify");
    waiting.child.kill("SIGINT");
    const ended = await waiting.ended;
    expect(ended.code).toBe(130);
    expect(ended.stderr).toContain("Interrupted. The work goes on; see it again: pawl sync watch");
    clear("hang");
    server.child.kill("SIGTERM");
    await server.ended;
  });
});
