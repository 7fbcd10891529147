import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type Golden, hashesOf } from "./golden-hashes.ts";

/** Tables that came later have nothing of what happened before. */
const HASH_OF_NOTHING = createHash("sha256").digest("hex");

const folder = join(import.meta.dirname, "golden");

describe("golden histories", () => {
  test.each(readdirSync(folder))("I15: %s still folds to the rows it had", async (name) => {
    const text = gunzipSync(readFileSync(join(folder, name))).toString("utf8");
    const golden = JSON.parse(text) as Golden;
    const hashes = await hashesOf(golden.events);
    const later = Object.keys(hashes).filter((table) => golden.hashes[table] === undefined);
    const empty = Object.fromEntries(later.map((table) => [table, HASH_OF_NOTHING]));
    expect(hashes).toEqual({ ...golden.hashes, ...empty });
  });
});
