import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { present } from "../../src/kernel/errors.ts";
import { tenantScope } from "../../src/work/shard/spec.ts";
import type { Shard, TableShape } from "../../src/shards/shard.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import {
  changesSince,
  chunkOf,
  enrol,
  GUARD,
  insertItems,
  shapesOf,
  spelled,
  TABLES,
} from "./conformance/stage.ts";

/**
 * A file of an application that does not wait for its commits, as `synchronous = normal` has it, and
 * what of it is on the disk: what the shard has had flushed.
 */
describe("an SQLite shard that loses its power", () => {
  let folder: string;
  let disk: string;
  let app: Database.Database;
  let shard: Shard;
  const file = (name: string): string => join(folder, `${name}.db`);
  const open = (name: string): Database.Database => {
    const db = new Database(file(name));
    db.pragma("journal_mode = wal");
    db.pragma("synchronous = normal");
    db.pragma("wal_autocheckpoint = 0");
    return db;
  };
  /** What is flushed is what a file has now. */
  const flush = async (path: string): Promise<boolean> => {
    if (path.endsWith("-wal")) copyFileSync(path, disk);
    return true;
  };

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "pawl-power-"));
    disk = join(folder, "flushed");
    app = open("before");
    app.exec(TABLES.items);
    shard = await openSqliteShard({ file: file("before"), flush });
  });
  afterEach(async () => {
    await shard.close();
    app.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test.each([
    [
      "a read of changes",
      async (shapes: TableShape[], from: string) => shard.read(changesSince(shapes, from)),
    ],
    [
      "a read of rows",
      async ([shape]: TableShape[]) => shard.read(chunkOf(present(shape, "a table"))),
    ],
    ["a question for it", async () => ({ position: await shard.position() })],
    [
      "a digest",
      async ([table]: TableShape[]) =>
        shard.digest({ table: present(table, "a table"), scope: tenantScope(["a"]) }),
    ],
  ])(
    "I82: keeps what a position covers, and skips no change after it: %s",
    async (_, positionOf) => {
      await enrol(shard);
      const shapes = await shapesOf(shard, "items");
      const armedAt = await shard.armCapture(GUARD, shapes);
      // A commit of the shard's own is flushed by SQLite itself.
      await flush(`${file("before")}-wal`);
      app.exec(insertItems("a", 1));
      const { position } = await positionOf(shapes, armedAt);
      app.exec(insertItems("a", 2, 3));

      copyFileSync(file("before"), file("after"));
      copyFileSync(disk, `${file("after")}-wal`);
      const later = open("after");
      const restored = await openSqliteShard({ file: file("after") });
      try {
        later.exec(insertItems("a", 4));
        const { changes } = await restored.read(changesSince(shapes, position));
        expect(spelled(changes)).toEqual(["put items 4"]);
        expect(later.prepare("select id from items order by id").pluck().all()).toEqual([1, 4]);
      } finally {
        await restored.close();
        later.close();
      }
    },
  );

  test("I82: flushes once for a position, however often that is read", async () => {
    await enrol(shard);
    const shapes = await shapesOf(shard, "items");
    const armedAt = await shard.armCapture(GUARD, shapes);
    app.exec(insertItems("a", 1));
    await shard.position();
    rmSync(disk);
    await shard.position();
    await shard.read(changesSince(shapes, armedAt));
    expect(existsSync(disk)).toBe(false);
    app.exec(insertItems("a", 2));
    await shard.position();
    expect(existsSync(disk)).toBe(true);
  });
});
