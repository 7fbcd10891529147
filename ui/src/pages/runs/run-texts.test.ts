import { describe, expect, test } from "vitest";
import { cancelConsequence, partOf, type Run, someText, taskHref } from "./run-texts.ts";

const NONE = {
  tasks_waiting: 0,
  tasks_ready: 0,
  tasks_retry_wait: 0,
  tasks_running: 0,
  tasks_succeeded: 0,
} as Run;

describe("cancelConsequence", () => {
  test("says what becomes of what waits, of what runs and of what is made", () => {
    const run = { ...NONE, tasks_waiting: 2, tasks_ready: 1, tasks_running: 1, tasks_succeeded: 4 };
    expect(cancelConsequence(run)).toBe(
      "3 tasks will not start. 1 task running now will be stopped, after a grace period at the " +
        "latest. The results of 4 tasks stay. A cancelled run cannot be resumed; request a new " +
        "run instead.",
    );
  });

  test("leaves out what there is none of", () => {
    expect(cancelConsequence(NONE)).toBe(
      "A cancelled run cannot be resumed; request a new run instead.",
    );
  });
});

test("a place is written so that any id fits into it", () => {
  expect(taskHref("run/1", 2)).toBe("/runs/run%2F1/tasks/2");
});

test("what asked is named where its name says something", () => {
  expect(partOf("evaluation", "01KABC:1794800592492")).toBe("");
  expect(partOf("evaluation", "01KABC:message:msg_42")).toBe("evaluation message:msg_42");
  expect(partOf("tick", "01KABC:manual:1794800592")).toBe("");
  expect(partOf("tick", "01KABC:2026-11-19T02:30")).toBe("tick 2026-11-19T02:30");
});

test("some names are told by the first and the number of the others", () => {
  expect([someText([]), someText(["a"]), someText(["a", "b", "c"])]).toEqual([
    "",
    "a",
    "a and 2 more",
  ]);
});
