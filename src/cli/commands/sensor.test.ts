import { describe, expect, test } from "vitest";
import { WatchSpec } from "../../work/definition/spec.ts";
import { sensorOfFlags } from "./sensor.ts";

describe("sensorOfFlags", () => {
  test("makes each ready-made watch from its flags", () => {
    expect(sensorOfFlags({ files: "/in", pattern: "*.csv" })).toEqual({
      mode: "poll",
      watch: { type: "files", folder: "/in", pattern: "*.csv" },
    });
    expect(sensorOfFlags({ rows: "orders", watermark: "id", databaseEnv: "SENSOR_SHOP" })).toEqual({
      mode: "poll",
      watch: { type: "rows", table: "orders", watermark: "id", database_env: "SENSOR_SHOP" },
    });
    expect(sensorOfFlags({ materializations: "a" })).toMatchObject({
      watch: { type: "materializations", asset_key: "a" },
    });
    expect(sensorOfFlags({ runFailures: true })).toMatchObject({
      watch: { type: "run_failures", assets: [] },
    });
    expect(sensorOfFlags({ runFailures: "a, b" })).toMatchObject({
      watch: { type: "run_failures", assets: ["a", "b"] },
    });
    expect(sensorOfFlags({ push: true })).toEqual({ mode: "push", watch: null });
  });

  test("makes a target of several assets, and takes a part of it back with none", () => {
    const flags = { asset: ["a,b", "c"], partitionKey: "{stem}", runKey: "{path}" };
    expect(sensorOfFlags(flags).target).toEqual({
      asset_selection: ["a", "b", "c"],
      partition_key: "{stem}",
      run_key: "{path}",
    });
    const target = { asset_selection: ["a"], partition_key: "x", run_key: "y", config: null };
    expect(sensorOfFlags({ runKey: "none" }, { watch: null, target }).target).toEqual({
      ...target,
      run_key: null,
    });
  });

  test("changes only what is said of a watch that there is", () => {
    const watch = WatchSpec.parse({ type: "files", folder: "/in", pattern: "*.csv" });
    expect(sensorOfFlags({ recursive: true }, { watch, target: null }).watch).toEqual({
      ...watch,
      recursive: true,
    });
    expect(sensorOfFlags({ description: "x" }, { watch, target: null })).toEqual({
      description: "x",
    });
  });

  test.each([
    [{ files: "/in", rows: "t" }, "--files together with --rows"],
    [{ push: true, files: "/in" }, "--push: expected no watch"],
    [{ pattern: "*" }, "--pattern: expected only with --files"],
    [{ databaseEnv: "SENSOR_SHOP" }, "--database-env: expected only with --rows"],
    [{ rows: "t" }, "--watermark: expected the column"],
    [{ partitionKey: "x" }, "--asset: expected at least one"],
    [{ enabled: true, disabled: true }, "--enabled or --disabled"],
  ])("refuses %j", (flags, sentence) => {
    expect(() => sensorOfFlags(flags)).toThrow(sentence);
  });
});
