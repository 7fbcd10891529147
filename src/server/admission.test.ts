import { describe, expect, test } from "vitest";
import { Admission } from "./admission.ts";

describe("Admission", () => {
  test("turns away what is beyond the limit until a place is given up", () => {
    const admission = new Admission();
    const enter = () => admission.enter("a", 2, "things", 429);
    const leave = enter();
    enter();
    expect(enter).toThrow("There are 2 things already");
    leave();
    enter();
    expect(enter).toThrow("There are 2 things already");
  });

  test("takes a place back once, however often it is given up", () => {
    const admission = new Admission();
    const leave = admission.enter("a", 2, "things", 429);
    admission.enter("a", 2, "things", 429);
    leave();
    leave();
    admission.enter("a", 2, "things", 429);
    expect(() => admission.enter("a", 2, "things", 429)).toThrow("things");
  });

  test("counts each name by itself", () => {
    const admission = new Admission();
    admission.enter("a", 1, "things", 503);
    expect(() => admission.enter("b", 1, "things", 503)).not.toThrow();
  });
});
