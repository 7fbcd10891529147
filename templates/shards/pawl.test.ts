import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { startPawl } from "pawl/embedded";

// Before the project is loaded, so that the test leaves its data alone.
const folder = await mkdtemp(join(tmpdir(), "shards-"));
process.env["DATA_DIR"] = folder;
const { default: project } = await import("./pawl.config.ts");
const { countOrders } = await import("./count.ts");
const { prepareShards } = await import("./prepare.ts");
after(() => rm(folder, { recursive: true }));

test("moves two tenants with every row of theirs", async () => {
  prepareShards();
  const pawl = await startPawl({ project, store: join(folder, "pawl") });
  try {
    const { client } = pawl;
    const { move_id: move } = await client.call("planMove", { body: { move: "spread" } });
    await client.call("startMove", { params: { move } });
    for await (const _ of client.follow()) {
      const { state, check } = await client.call("getMove", { params: { move } });
      assert.notEqual(state, "PAUSED", check.note ?? "It cannot go on.");
      if (state === "COMPLETE") break;
    }
  } finally {
    await pawl.stop();
  }
  assert.deepEqual(countOrders(), {
    ash: { east: 500, west: 0 },
    birch: { east: 500, west: 0 },
    cedar: { east: 500, west: 0 },
    fir: { east: 0, west: 500 },
    oak: { east: 0, west: 500 },
  });
});
