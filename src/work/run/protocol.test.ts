import { describe, expect, test } from "vitest";
import { HeartbeatRequest } from "./protocol.ts";

describe("HeartbeatRequest", () => {
  test.each([
    [3, 10, true],
    [0, null, true],
    [0.5, 1, false],
    [1, 2.5, false],
    [-1, 1, false],
  ])("takes progress in whole numbers from 0: %d of %d", (done, total, taken) => {
    const ref = { run_pos: 1, task_key: 0, attempt: 1 };
    const request = {
      worker_id: "w",
      leases: [],
      tasks: [{ ...ref, progress: { done, total, note: null } }],
    };
    expect(HeartbeatRequest.safeParse(request).success).toBe(taken);
  });
});
