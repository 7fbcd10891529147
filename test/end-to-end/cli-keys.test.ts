import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { CliProject } from "./cli-project.ts";

// Commands without a server start one of their own, also on a busy machine.
const CONFIG = `import { asset, definePawl, dynamicPartitions, sensor } from "pawl";
  const tenants = dynamicPartitions("tenants");
  const reports = asset("reports", { partitions: tenants, materialize: async () => undefined });
  const signups = sensor("signups", {
    push: true,
    evaluate({ message, addPartitions, request }) {
      addPartitions(tenants, message.payload.trials);
      request({ assets: reports, partition: message.payload.tenant, add: true });
    },
  });
  export default definePawl({ assets: [reports], sensors: [signups] });`;

describe("keys of dynamic partitions", () => {
  const project = new CliProject();
  project.write("pawl.config.ts", CONFIG);
  afterAll(() => project.remove());

  async function said(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await project.pawl(args);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return stdout;
  }

  test("are removed by name or from a file, and added again", async () => {
    expect(await said("partitions", "add", "reports", "a", "b", "c,d")).toBe(
      "Added 4 keys; tenants has 4 now.\n",
    );
    expect(await said("partitions", "remove", "reports", "b", "x")).toBe(
      "Removed 1 key; tenants has 3 now. 1 was not there.\n",
    );
    project.write("gone.txt", "c\n\nd\n");
    const file = ["--file", join(project.folder, "gone.txt")];
    expect(await said("partitions", "remove", "reports", ...file)).toBe(
      "Removed 2 keys; tenants has 1 now.\n",
    );
    expect(await said("partitions", "add", "reports", "b")).toContain("tenants has 2 now");
    const list = await said("partitions", "list", "reports", "--json");
    const keys = (JSON.parse(list) as { items: { partition_key: string }[] }).items;
    expect(keys.map(({ partition_key }) => partition_key)).toEqual(["a", "b"]);

    // More than one request takes, in bytes.
    const long = Array.from({ length: 3_000 }, (_, at) => `${at}-${"é".repeat(200)}`);
    project.write("gone.txt", ["a", ...long, "b"].join("\n"));
    expect(await said("partitions", "remove", "reports", ...file)).toBe(
      "Removed 2 keys; tenants has 0 now. 3,000 were not there.\n",
    );

    const { code, stderr } = await project.pawl(["partitions", "remove", "reports"]);
    expect({ code, stderr }).toMatchObject({ code: 2 });
    expect(stderr).toContain("expected them as arguments, or a file of them with --file");
  });

  test("I89: that a sensor's function adds are told of by a dry run, and then are there", async () => {
    const payload = JSON.stringify({ tenant: "acme", trials: ["t1", "t2"] });
    const evaluate = ["sensor", "evaluate", "signups", "--payload", payload];
    expect(await said(...evaluate, "--dry-run")).toContain(
      "would trigger 1 run: 1 created. 3 keys would be added to tenants.",
    );
    expect(await said("partitions", "list", "reports")).not.toContain("acme");
    expect(await said(...evaluate)).toContain("3 keys were added to tenants.");
    const list = await said("partitions", "list", "reports");
    for (const key of ["acme", "t1", "t2"]) expect(list).toMatch(new RegExp(` ${key} `));
  });
});
