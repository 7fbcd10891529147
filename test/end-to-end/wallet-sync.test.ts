import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { plainEnvironment, ROOT } from "./example-project.ts";

test("the demonstration of examples/wallet-sync has every row after a kill and a rewrite, and leaves nothing", async () => {
  const child = spawn(process.execPath, ["demo.ts"], {
    cwd: join(ROOT, "examples", "wallet-sync"),
    env: { ...plainEnvironment(), NO_COLOR: "1" },
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);

  expect(await ended, stdout + stderr).toBe(0);
  const [, killed = "", again = ""] = stdout.split(/Killed Pawl|Starting Pawl again/);
  const segments = [...killed.matchAll(/% +(\d+)\/(\d+)/g)];
  const sum = (part: 1 | 2): number =>
    segments.reduce((count, match) => count + Number(match[part]), 0);
  expect(segments).toHaveLength(8);
  expect(sum(1)).toBeGreaterThan(0);
  expect(sum(1), "the kill came too late to be in the middle").toBeLessThan(sum(2));
  expect(again).toContain("SyncRewritten");
  expect(again.match(/^(?:north|south) .* ok$/gm)).toHaveLength(8);
  expect(again).toContain("Everything is in order.");

  const nodes = [...stdout.matchAll(/blocks and listens on (\S+)/g)].map(([, url = ""]) => url);
  expect(nodes).toHaveLength(2);
  for (const url of nodes) await expect(fetch(url)).rejects.toThrow("fetch failed");
});
