import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readEnvFile } from "./env-file.ts";
import { findProject } from "./project.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pawl-env-"));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

function read(text: string): Readonly<Record<string, string>> {
  writeFileSync(join(folder, ".env"), text);
  return readEnvFile(folder);
}

test("variables are read with comments, quotes, several lines and export", () => {
  const text = `# keys\r\nONE=1\n\nexport TWO='a # b' # and why\nTHREE="x\n=y\nz"\n FOUR = 4\nFIVE=\n`;
  expect(read(text)).toEqual({ ONE: "1", TWO: "a # b", THREE: "x\n=y\nz", FOUR: "4", FIVE: "" });
});

test("a mark at the beginning is no part of the first name", () => {
  expect(read("\uFEFFONE=1\r\nTWO=2\r\n")).toEqual({ ONE: "1", TWO: "2" });
});

test("a folder without the file, or with a folder of its name, has no variables", () => {
  expect(readEnvFile(folder)).toEqual({});
  mkdirSync(join(folder, ".env"));
  expect(readEnvFile(folder)).toEqual({});
});

test.each([
  ["A=1\nhunter2 is it\n", "line 2: expected NAME=value or # a comment."],
  ['A=1\nB="hunter2\nC=3\n', 'line 2: expected a " that ends the value.'],
  ["A=1\n2B=hunter2\n", "line 2: expected NAME=value"],
])("a line that sets nothing is refused without what stands there: %j", (text, fault) => {
  let message = "";
  try {
    read(text);
  } catch (error) {
    expect(error).toMatchObject({ code: "CONFIG_INVALID" });
    message = (error as Error).message;
  }
  expect(message).toContain(fault);
  expect(message).not.toContain("hunter2");
});

test("a file that cannot be read says what to do", () => {
  symlinkSync(".env", join(folder, ".env"));
  expect(() => readEnvFile(folder)).toThrow(/cannot be read \(ELOOP\)\. Make it readable/);
});

test("a pawl.json that cannot be read is refused without what stands there", () => {
  writeFileSync(join(folder, "pawl.json"), '{ "token": hunter2 }');
  const find = () => findProject({ cwd: folder, env: {} });
  expect(find).toThrow(/pawl\.json is not valid JSON: Unexpected token 'h'\.$/);
  expect(find).not.toThrow("hunter2");
});
