import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunDocument } from "../../src/work/run/api.ts";
import { CliProject } from "./cli-project.ts";

const CONFIG = `
import { asset, definePawl, newFiles, sensor, staticPartitions } from "pawl";

const file = asset("file", { partitions: staticPartitions(["a", "b"]), materialize: () => {} });

export const project = definePawl({
  assets: [file],
  sensors: [
    sensor("inbox", {
      watch: newFiles({ folder: "inbox", settleMs: 0 }),
      target: { assets: file, partition: "{stem}" },
      minIntervalMs: 100,
    }),
  ],
});
`;

describe("pawl tick --for, with no server running", () => {
  const project = new CliProject();

  beforeAll(() => {
    project.write("pawl.config.ts", CONFIG);
    mkdirSync(join(project.folder, "inbox"));
  });
  afterAll(() => project.remove());

  async function tick(): Promise<unknown> {
    const { code, stdout, stderr } = await project.pawl(["tick", "--for", "60s", "--json"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return JSON.parse(stdout);
  }

  async function runs(): Promise<RunDocument[]> {
    const { stdout } = await project.pawl(["run", "list", "--json"]);
    return (JSON.parse(stdout) as { items: RunDocument[] }).items;
  }

  test("lets every sensor look once, and works off what it asks for", async () => {
    expect(await tick()).toMatchObject({ idle: true });
    expect(await runs()).toEqual([]);
    project.write("inbox/b.csv", "1");
    expect(await tick()).toMatchObject({ idle: true });
    expect(await runs()).toMatchObject([{ state: "SUCCEEDED", partition_keys: ["b"] }]);
    expect(await tick()).toMatchObject({ idle: true, events: 0 });
  });
});
