import { describe, expect, test } from "vitest";
import { onlySync, syncWorld } from "../../test/properties/sync-world.ts";
import { PawlError } from "../core/errors.ts";
import { addSync, type AddSyncInput } from "./add-sync.ts";
import { knownSync } from "./find-sync.ts";

function codeOf(body: () => unknown): string | null {
  try {
    body();
    return null;
  } catch (error) {
    return error instanceof PawlError ? error.code : "another error";
  }
}

const target = { wallet: "b", network: "main" };

describe("addSync", () => {
  test("adds a target with bounds of its own", () => {
    const world = syncWorld({ targets: [], source: "{network}" }, 99);
    const added = world.submit(
      addSync({ name: "logs", target, from_block: 10, to_block: 20, max_parallel: 1 }),
    );

    expect(added).toMatchObject({ state: "PENDING", target_key: "network=main,wallet=b" });
    expect(onlySync(world)).toMatchObject({
      origin: "api",
      source: "main",
      from_block: 10,
      to_limit: 20,
      synced_to: 9,
      max_parallel: 1,
      priority: null,
    });
  });

  test("refuses a target that is there, and what cannot be synced", () => {
    const world = syncWorld({ targets: [], source: "{network}" });
    const add = (input: Partial<AddSyncInput>) => () =>
      world.submit(addSync({ name: "logs", target, ...input }));
    add({})();
    expect(codeOf(add({}))).toBe("NAME_TAKEN");
    expect(codeOf(add({ name: "unknown" }))).toBe("SYNC_NOT_FOUND");
    expect(codeOf(add({ target: {} }))).toBe("INPUT_INVALID");
    expect(codeOf(add({ target: { wallet: "c" } }))).toBe("INPUT_INVALID");
    const other = { ...target, wallet: "c" };
    expect(codeOf(add({ target: other, from_block: 5, to_block: 4 }))).toBe("INPUT_INVALID");
  });
});

describe("knownSync", () => {
  test("finds a sync by its id and by its name and target", () => {
    const world = syncWorld();
    const { sync_id } = onlySync(world);
    for (const reference of [sync_id, "logs@wallet=a"]) {
      expect(world.read((rows) => knownSync(rows, reference)).sync_id).toBe(sync_id);
    }
    for (const reference of ["logs", "logs@wallet=b", "@", ""]) {
      expect(codeOf(() => world.read((rows) => knownSync(rows, reference)))).toBe("SYNC_NOT_FOUND");
    }
  });
});
