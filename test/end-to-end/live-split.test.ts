import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { plainEnvironment, ROOT } from "./example-project.ts";

async function demonstrate(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ code: unknown; stdout: string; said: string }> {
  const child = spawn(process.execPath, ["demo.ts", ...args], {
    cwd: join(ROOT, "examples", "live-split"),
    env: { ...plainEnvironment(), NO_COLOR: "1", ...env },
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await ended, stdout, said: stdout + stderr };
}

function expectAllThere(stdout: string): void {
  expect(stdout).toContain("None failed.");
  expect(stdout).not.toContain("WRONG");
  expect(stdout.match(/ ok$/gm)).toHaveLength(6);
  expect(stdout).toContain("Everything is in order.");
}

describe("the demonstration of examples/live-split", () => {
  test("I54: moves two tenants under load and has every acknowledged write once", async () => {
    const { code, stdout, said } = await demonstrate([]);
    expect(code, said).toBe(0);
    expectAllThere(stdout);
    expect(stdout).toMatch(/^birch +west +2 /m);
    expect(stdout).toMatch(/^cedar +west +2 /m);
    expect(stdout).toMatch(/^ash +east +1 /m);
  });

  test("I56: takes the cutover back, on PostgreSQL", async () => {
    const env = {
      LIVE_SPLIT_EAST: await freshDatabaseUrl(),
      LIVE_SPLIT_WEST: await freshDatabaseUrl(),
    };
    const args = ["--postgres", "--rollback", "--writes", "300"];
    const { code, stdout, said } = await demonstrate(args, env);
    expect(code, said).toBe(0);
    expectAllThere(stdout);
    expect(stdout).toMatch(/^birch +east +3 /m);
    expect(stdout).toMatch(/^cedar +east +3 /m);
  });
});
