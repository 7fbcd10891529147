import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { WatchSpec } from "../../../work/definition/spec.ts";
import { type FileItem, newFiles, sensor } from "../../../define/sensor.ts";
import { listableFolders, openWatcher } from "./open-watcher.ts";
import { SEEN_MAX, watchFiles } from "./files.ts";

const root = mkdtempSync(join(tmpdir(), "pawl-files-"));
let folders = 0;
afterAll(() => rmSync(root, { recursive: true, force: true }));

const { signal } = new AbortController();

/** A folder of its own with a watch that remembers its cursor, and a clock that is a value. */
async function watched({ limit = 1_000, ...spec }: { limit?: number; [option: string]: unknown }) {
  const folder = join(root, String(++folders));
  await mkdir(folder);
  const parsed = WatchSpec.parse({ type: "files", folder, settle_ms: 10, ...spec });
  if (parsed.type !== "files") throw new Error("This watch is of files.");
  let now = 1_000_000;
  const watcher = watchFiles(parsed, { limit, now: () => now, listable: [folder] });
  let cursor: string | null = null;
  return {
    folder,
    get cursor() {
      return cursor;
    },
    get now() {
      return now;
    },
    advance: (ms: number) => void (now += ms),
    async write(name: string, text: string, at = now) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
      await utimes(join(folder, name), at / 1_000, at / 1_000);
    },
    async look(): Promise<FileItem[]> {
      const looked = await watcher.look(cursor, signal);
      cursor = looked.cursor;
      return looked.items as FileItem[];
    },
    async names(): Promise<string[]> {
      return (await this.look()).map(({ folder: below, name }) => join(below, name));
    },
  };
}

describe("watchFiles", () => {
  test("tells of a file what a target may name", async () => {
    const files = await watched({ recursive: true });
    await files.write("eu/orders.2025.csv", "four", 5_000);

    expect(await files.look()).toEqual([
      {
        name: "orders.2025.csv",
        stem: "orders.2025",
        extension: ".csv",
        path: join(files.folder, "eu/orders.2025.csv"),
        folder: "eu",
        size: 4,
        modified_at: "1970-01-01T00:00:05.000Z",
      },
    ]);
  });

  test("finds each file once, the oldest first, and those that changed again", async () => {
    const files = await watched({});
    await files.write("b.csv", "1", 2_000);
    await files.write("a.csv", "1", 3_000);
    await files.write("c.csv", "1", 2_000);

    expect(await files.names()).toEqual(["b.csv", "c.csv", "a.csv"]);
    expect(await files.names()).toEqual([]);
    await files.write("b.csv", "2", 4_000);
    expect(await files.names()).toEqual(["b.csv"]);
  });

  test("finds what is moved in or renamed, however old it is", async () => {
    const files = await watched({});
    await files.write("new.csv", "1", 9_000);
    await files.names();
    await files.write("old.csv", "1", 1_000);
    await rename(join(files.folder, "new.csv"), join(files.folder, "renamed.csv"));

    expect(await files.names()).toEqual(["old.csv", "renamed.csv"]);
  });

  test("keeps the very same cursor while nothing changes, and forgets what vanished", async () => {
    const files = await watched({});
    expect(await files.names()).toEqual([]);
    // Not null: a function can tell the first look by that.
    expect(files.cursor).toBe("seen1.");
    await files.write("a.csv", "1", 1_000);
    await files.names();
    const { cursor } = files;
    await files.names();
    expect(files.cursor).toBe(cursor);

    await rm(join(files.folder, "a.csv"));
    await files.names();
    expect(files.cursor?.length).toBeLessThan(cursor?.length ?? 0);
    await files.write("a.csv", "1", 1_000);
    expect(await files.names()).toEqual(["a.csv"]);
  });

  test("waits until a file has settled, but not for a time that lies far ahead", async () => {
    const files = await watched({});
    await files.write("half.csv", "1");
    await files.write("ahead.csv", "1", files.now + 1_000);

    expect(await files.names()).toEqual(["ahead.csv"]);
    files.advance(9);
    expect(await files.names()).toEqual([]);
    files.advance(1);
    expect(await files.names()).toEqual(["half.csv"]);
    files.advance(985);
    expect(await files.names()).toEqual([]);
  });

  test("finds no more at once than it may, and the rest next time", async () => {
    const files = await watched({ limit: 2 });
    for (const [at, name] of ["a", "b", "c", "d", "e"].entries()) {
      await files.write(name, "1", 1_000 + at);
    }

    expect(await files.names()).toEqual(["a", "b"]);
    await files.write("0", "1", 500);
    expect(await files.names()).toEqual(["0", "c"]);
    expect(await files.names()).toEqual(["d", "e"]);
    expect(await files.names()).toEqual([]);
  });

  test("goes by the pattern: of names, or of paths when it has a slash", async () => {
    const flat = await watched({ pattern: "*.csv" });
    const deep = await watched({ pattern: "*.csv", recursive: true });
    const paths = await watched({ pattern: "eu/*.csv", recursive: true });
    for (const files of [flat, deep, paths]) {
      for (const name of ["a.csv", "b.txt", ".hidden.csv", "eu/c.csv", ".git/d.csv", "us/e.csv"]) {
        await files.write(name, "1", 1_000);
      }
    }

    expect(await flat.names()).toEqual(["a.csv"]);
    expect(await deep.names()).toEqual(["a.csv", "eu/c.csv", "us/e.csv"]);
    expect(await paths.names()).toEqual(["eu/c.csv"]);
  });

  test("follows a link to a file within the folder, and none that leads out or in circles", async () => {
    const files = await watched({ recursive: true });
    const outside = join(root, "outside");
    await mkdir(outside, { recursive: true });
    await writeFile(join(outside, "secret"), "1");
    await files.write("in/real", "1", 1_000);
    await symlink("in/real", join(files.folder, "link"));
    await symlink(join(outside, "secret"), join(files.folder, "out"));
    await symlink(outside, join(files.folder, "away"));
    await symlink(files.folder, join(files.folder, "circle"));
    await symlink("nowhere", join(files.folder, "broken"));
    await symlink("x".repeat(300), join(files.folder, "endless"));

    expect(await files.names()).toEqual(["in/real", "link"]);
  });

  test("says in words what is wrong with the folder, the pattern or the cursor", async () => {
    const files = await watched({});
    const failing = async (more: object, cursor: string | null = null): Promise<string> => {
      const parsed = WatchSpec.parse({ type: "files", folder: files.folder, ...more });
      if (parsed.type !== "files") return "";
      try {
        await watchFiles(parsed, { limit: 10, now: Date.now, listable: [root] }).look(
          cursor,
          signal,
        );
        return "";
      } catch (error) {
        return String(error);
      }
    };
    await files.write("file", "1");

    expect(await failing({ folder: join(files.folder, "nope") })).toContain("There is no folder");
    expect(await failing({ folder: join(files.folder, "file") })).toContain("is no folder");
    expect(await failing({ pattern: "../*" })).toContain("leads out");
    expect(await failing({}, "anything")).toContain("reset it to start anew");
  });

  test("remembers as many files as it says, and refuses one more", async () => {
    const files = await watched({ limit: SEEN_MAX });
    for (let at = 0; at < SEEN_MAX; at += 500) {
      const names = Array.from({ length: 500 }, (_, more) => join(files.folder, `${at + more}`));
      await Promise.all(names.map((name) => writeFile(name, "")));
    }

    expect(await files.look()).toHaveLength(SEEN_MAX);
    expect(files.cursor?.length).toBeLessThan(100_000);
    expect(await files.look()).toEqual([]);
    await files.write("one more", "");
    await expect(files.look()).rejects.toThrow(`more than ${SEEN_MAX} matches in ${files.folder}`);
  });
});

describe("the folders that sensors may list", () => {
  const files = (folder: string, listable: readonly string[]) => {
    const spec = WatchSpec.parse({ type: "files", folder, settle_ms: 0 });
    const surroundings = { code: null, environment: {}, folder: root, limit: 10, now: Date.now };
    return openWatcher(spec, { ...surroundings, listable }).look(null, signal);
  };

  test("I83: are the project's, those of its code and those that the worker names", () => {
    const arrivals = sensor("arrivals", {
      watch: newFiles({ folder: "/data/in" }),
      target: { assets: "uploads", partition: "{stem}" },
    });
    const named = { SENSOR_FOLDERS: ["/mnt/a", "", "below"].join(delimiter) };
    expect(listableFolders("/project", [arrivals.spec], named)).toEqual([
      "/project",
      "/data/in",
      "/mnt/a",
      "/project/below",
    ]);
  });

  test("I83: nothing else of the machine is listed, also not through a link or by its name's start", async () => {
    const own = join(root, "own");
    await mkdir(join(own, "below"), { recursive: true });
    await mkdir(join(root, "own-too"));
    await symlink("/etc", join(own, "link"));
    await expect(files(own, [own])).resolves.toMatchObject({ items: [] });
    await expect(files(join(own, "below"), [own])).resolves.toMatchObject({ items: [] });
    for (const folder of ["/etc", join(own, "link"), join(own, ".."), join(root, "own-too")]) {
      await expect(files(folder, [own])).rejects.toThrow("may not list");
    }
  });
});

// Goal: every version of a file that stays until it has settled and is looked at is found exactly
// once. Method: random creations, changes, moves and removals with looks in between, beside a model
// of what is there; each change gets a time of its own, in any order.
describe("watchFiles, whatever happens in the folder", () => {
  const name = fc.constantFrom("a", "b", "c", "below/d");
  const step = fc.oneof(
    fc.record({ type: fc.constant("write"), name, age: fc.nat({ max: 5_000 }) }),
    fc.record({ type: fc.constant("move"), name, to: name }),
    fc.record({ type: fc.constant("remove"), name }),
    fc.record({ type: fc.constant("look") }),
  );

  test("finds every version that stays, exactly once", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 30 }),
        fc.integer({ min: 1, max: 3 }),
        async (steps, limit) => {
          const files = await watched({ recursive: true, limit, settle_ms: 0 });
          const there = new Map<string, number>();
          let found = new Map<string, number>();
          let used = 0;
          const look = async (): Promise<number> => {
            const items = await files.look();
            // What is no longer there may come back and is then new.
            found = new Map([...found].filter(([path, at]) => there.get(path) === at));
            for (const item of items) {
              const path = join(item.folder, item.name);
              const at = Date.parse(item.modified_at);
              expect(there.get(path)).toBe(at);
              expect(found.get(path)).not.toBe(at);
              found.set(path, at);
            }
            return items.length;
          };
          for (const each of steps) {
            if (each.type === "write") {
              // Whole seconds, each once, and not in the order of the writing.
              const at = ((each.age ?? 0) * 100 + ++used) * 1_000;
              await files.write(each.name ?? "", `${used}`, at);
              there.set(each.name ?? "", at);
            } else if (each.type === "move" && there.has(each.name ?? "")) {
              if (each.name === each.to) continue;
              await mkdir(dirname(join(files.folder, each.to ?? "")), { recursive: true });
              await rename(join(files.folder, each.name ?? ""), join(files.folder, each.to ?? ""));
              there.set(each.to ?? "", there.get(each.name ?? "") ?? 0);
              there.delete(each.name ?? "");
            } else if (each.type === "remove" && there.delete(each.name ?? "")) {
              await rm(join(files.folder, each.name ?? ""));
            } else if (each.type === "look") {
              await look();
            }
          }
          while ((await look()) > 0);
          expect(found).toEqual(there);
        },
      ),
      { numRuns: 60 },
    );
  });
});
