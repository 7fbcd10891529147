import { describe, expect, test } from "vitest";
import { fillTemplate, templateFault, templateNames, valueAt, valueText } from "./template.ts";

describe("templateFault", () => {
  test("takes names that one of the notifications has, and names of labels", () => {
    const template = "{{title}} {{ run_id }} {{error.message}} {{labels.team}} {{link}}";
    expect(templateFault(template, ["run.failed"])).toBeNull();
    expect(templateFault("{{run_id}}{{backfill_id}}", ["run.failed", "split.failed"])).toBeNull();
    expect(templateFault("no names, { one brace }", ["run.failed"])).toBeNull();
  });

  test("refuses a name that none of them has, with the one that was probably meant", () => {
    expect(templateFault("{{run_idd}}", ["run.failed"])).toMatch(
      /names "run_idd", which none of its notifications has \(perhaps run_id is meant\); they have type, /,
    );
    expect(templateFault("{{run_id}}", ["sensor.error"])).toContain('names "run_id"');
    expect(templateFault("{{labels.team}}", ["move.paused"])).toContain('names "labels.team"');
    expect(templateFault("{{}}", ["run.failed"])).toContain('names ""');
    expect(templateFault("{{toString}}", ["run.failed"])).toContain('names "toString"');
  });

  test("refuses braces that belong to no name", () => {
    for (const template of ["{{run_id", "run_id}}", "{{a{{run_id}}", "{{{run_id}}}}}"]) {
      expect(templateFault(template, ["run.failed"]), template).toContain("belongs to no name");
    }
  });
});

test("templateNames are those of all subjects, each once", () => {
  const names = templateNames(["run.failed", "run.succeeded", "backfill.failed"]);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toEqual(expect.arrayContaining(["type", "run_id", "failures", "counts.total"]));
  expect(names).not.toContain("sensor_id");
});

test("fillTemplate puts a value in the place of each name, and looks at no value again", () => {
  const values: Record<string, string> = { one: "{{two}}", two: "$&" };
  expect(fillTemplate("{{one}} {{ two }}!", (name) => values[name] ?? "")).toBe("{{two}} $&!");
});

describe("valueAt", () => {
  test("follows a path, and takes a name with dots in it as a whole", () => {
    const data = { error: { message: "no" }, labels: { "a.b": "1", a: { b: "2" } } };
    expect(valueAt(data, "error.message")).toBe("no");
    expect(valueAt(data, "labels.a.b")).toBe("1");
    expect(valueAt(data, "error.class")).toBeNull();
    expect(valueAt(data, "error.message.length")).toBeNull();
    expect(valueAt(data, "constructor.name")).toBeNull();
  });
});

test("valueText writes the first ten of a list and how many more there are", () => {
  expect(valueText(null)).toBe("");
  expect(valueText(false)).toBe("false");
  expect(valueText(["a", 1, null])).toBe("a, 1, ");
  expect(valueText(Array.from({ length: 12 }, (_, at) => at))).toBe(
    "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more",
  );
});
