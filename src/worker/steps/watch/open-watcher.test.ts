import { describe, expect, test } from "vitest";
import type { ListedObject, ListObjects, ObjectItem } from "../../../define/sensor.ts";
import { watchObjects } from "./open-watcher.ts";

const { signal } = new AbortController();
const object = (key: string, at = 1_000, more: Partial<ListedObject> = {}): ListedObject => ({
  key,
  size: 1,
  modifiedAt: at,
  ...more,
});

function watched(list: ListObjects, { prefix = "", pattern = "*", limit = 100 } = {}) {
  const watcher = watchObjects({ type: "objects", prefix, pattern }, list, limit);
  let cursor: string | null = null;
  return async (): Promise<ObjectItem[]> => {
    const looked = await watcher.look(cursor, signal);
    cursor = looked.cursor;
    return looked.items as ObjectItem[];
  };
}

const keysOf = (items: readonly ObjectItem[]): string[] => items.map(({ key }) => key);

describe("watchObjects", () => {
  test("finds new and changed objects once, the oldest first", async () => {
    const store = [object("raw/b.csv", 2_000), object("raw/a.csv", 2_000), object("raw/c", 1_000)];
    const look = watched(() => store, { prefix: "raw/" });

    expect(keysOf(await look())).toEqual(["raw/c", "raw/a.csv", "raw/b.csv"]);
    expect(await look()).toEqual([]);
    store[0] = object("raw/b.csv", 2_000, { etag: "other" });
    expect(await look()).toEqual([
      {
        key: "raw/b.csv",
        name: "b.csv",
        stem: "b",
        extension: ".csv",
        size: 1,
        modified_at: "1970-01-01T00:00:02.000Z",
        etag: "other",
      },
    ]);
  });

  test("reads page by page until a page brings nothing new", async () => {
    const keys = ["a", "b", "c", "d", "e"];
    const asked: (string | null)[] = [];
    const look = watched(async ({ after }) => {
      asked.push(after);
      return keys
        .filter((key) => after === null || key > after)
        .slice(0, 2)
        .map((key) => object(key));
    });

    expect(keysOf(await look())).toEqual(keys);
    expect(asked).toEqual([null, "b", "d", "e"]);
  });

  test("reads an async iterable", async () => {
    const look = watched(async function* () {
      yield object("a");
      yield object("b", 1, { modifiedAt: "2025-01-01T00:00:00Z" });
    });

    expect(keysOf(await look())).toEqual(["a", "b"]);
  });

  test("goes by prefix and pattern, and passes over what stands for folders", async () => {
    const store = ["raw/", "raw/a.csv", "raw/2025/b.csv", "raw/c.txt", "other/d.csv"];
    const list = () => store.map((key) => object(key));

    expect(keysOf(await watched(list, { prefix: "raw/", pattern: "*.csv" })())).toEqual([
      "raw/2025/b.csv",
      "raw/a.csv",
    ]);
    expect(keysOf(await watched(list, { prefix: "raw/", pattern: "2025/*" })())).toEqual([
      "raw/2025/b.csv",
    ]);
  });

  test("says in words what is wrong with the function", async () => {
    await expect(watched(() => 1 as never)()).rejects.toThrow("an async iterable");
    await expect(watched(() => [object("a", Number.NaN)])()).rejects.toThrow("must be a time");
  });
});
