import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type Golden, hashesOf } from "./golden-hashes.ts";

const folder = join(import.meta.dirname, "golden");

describe("golden histories", () => {
  test.each(readdirSync(folder))("I15: %s still folds to the rows it had", async (name) => {
    const text = gunzipSync(readFileSync(join(folder, name))).toString("utf8");
    const golden = JSON.parse(text) as Golden;
    expect(await hashesOf(golden.events)).toEqual(golden.hashes);
  });
});
