import { expect, test } from "vitest";
import { createClient } from "../../client/client.ts";
import { nextSteps, type OwnApi } from "./api.ts";
import type { Terminal } from "./terminal.ts";

const client = createClient({ url: "http://127.0.0.1:7290/" });
const reopen = (): Promise<void> => Promise.resolve();
const served: OwnApi = { client, isEmbedded: false, assets: [], reopen };
const steps = { show: "pawl run show run_1", logs: "pawl logs run_1", page: "runs/run_1" };

function terminal(isTTY: boolean, json = false): Terminal {
  const stream = { isTTY, write: () => true };
  return { stdout: stream, stderr: stream, json, colours: false, now: () => 0 };
}

test("a person at a terminal is told what to do next, and a script is told nothing", () => {
  expect(nextSteps(terminal(true), served, steps)).toEqual({
    note:
      "Next:\n  show  pawl run show run_1\n  logs  pawl logs run_1\n" +
      "  page  http://127.0.0.1:7290/runs/run_1",
  });
  expect(nextSteps(terminal(false), served, steps)).toEqual({});
  expect(nextSteps(terminal(true, true), served, steps)).toEqual({});
  const { note } = nextSteps(terminal(true), { ...served, isEmbedded: true }, steps);
  expect(note).not.toContain("page");
});
