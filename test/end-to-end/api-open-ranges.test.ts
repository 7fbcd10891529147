import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PartInput } from "../../src/work/operations.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { type Api, startApi } from "./api-server.ts";
import { CliProject } from "./cli-project.ts";

const SPECS = [
  {
    kind: "asset",
    asset_key: "hours",
    partitions: { type: "hourly", start: "2025-01-01", end: "2025-01-03" },
  },
  { kind: "asset", asset_key: "shops", partitions: { type: "dynamic", name: "shops" } },
];

describe.each(["SQLite", "PostgreSQL"])("a range without an end, on %s", (kind) => {
  let api: Api;
  const project = new CliProject();

  beforeAll(async () => {
    const database = kind === "SQLite" ? {} : { databaseUrl: await freshDatabaseUrl() };
    api = await startApi({ ...database, actsByItself: false });
    const body = { specs: SPECS } as unknown as PartInput<"publishDefinitions", "body">;
    await api.client.call("publishDefinitions", { body });
    await addShops("a", "b", "c");
  });

  afterAll(async () => {
    await project.remove();
    await api.close();
  });

  const addShops = (...keys: string[]) =>
    api.client.call("addPartitionKeys", { params: { asset_key: "shops" }, body: { keys } });

  test("I100: goes to the last partition there is, and to none that comes later", async () => {
    const wish: PartInput<"previewBackfill", "body"> = {
      assets: ["shops"],
      selector: { type: "range", start: "b" },
    };
    const closed = { type: "range", start: "b", end: "c" };
    const preview = await api.client.call("previewBackfill", { body: wish });
    expect(preview).toMatchObject({ total_partitions: 2, selector: closed });
    const plan_hash = preview.plan_hash;
    const { backfill_id } = await api.client.call("createBackfill", {
      body: { ...wish, plan_hash },
    });
    await addShops("d");
    const document = await api.client.call("getBackfill", { params: { backfill_id } });
    expect(document).toMatchObject({ total_partitions: 2, partition_selector: closed });
    const later = api.client.call("createBackfill", { body: { ...wish, plan_hash } });
    await expect(later).rejects.toMatchObject({ code: "PLAN_CHANGED" });
  });

  test("is what --start alone says, and the preview names its end", async () => {
    const preview = ["backfill", "preview", "hours", "--start", "2025-01-02"];
    const { code, stdout, stderr } = await project.pawl(preview, { PAWL_URL: api.url });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout).toMatch(/^range +2025-01-02T00:00Z to 2025-01-02T23:00Z$/m);
    expect(stdout).toMatch(/^partitions +24$/m);
    const end = await project.pawl(["backfill", "preview", "hours", "--end", "2025-01-02"], {
      PAWL_URL: api.url,
    });
    expect(end.code).toBe(2);
    expect(end.stderr).toContain("--start: expected the first partition key of the range");
  });
});
