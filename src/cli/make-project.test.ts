import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeProject, type MadeProject, TEMPLATES } from "./make-project.ts";

const NOW = Date.parse("2026-07-31T12:00:00Z");

let directory = "";

beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), "pawl-made-")), "My Shop");
  mkdirSync(directory);
});
afterEach(() => rmSync(join(directory, ".."), { recursive: true }));

const make = (template: (typeof TEMPLATES)[number] = "assets"): MadeProject =>
  makeProject({ directory, template, now: NOW });
const put = (name: string, text: string): void => writeFileSync(join(directory, name), text);
const textOf = (name: string): string => readFileSync(join(directory, name), "utf8");

function manifest(): Record<string, unknown> {
  return JSON.parse(textOf("package.json")) as Record<string, unknown>;
}

test("every template makes what all projects have, and begins a month ago under the folder's name", () => {
  for (const template of TEMPLATES) {
    directory = join(directory, "..", `A ${template}`);
    const { created, changed, kept } = make(template);
    expect(readdirSync(directory).toSorted()).toEqual(created);
    expect(created).toEqual(
      expect.arrayContaining([
        ".gitignore",
        "README.md",
        "package.json",
        "pawl.config.ts",
        "pawl.test.ts",
        "tsconfig.json",
      ]),
    );
    expect({ changed, kept }).toEqual({ changed: [], kept: [] });
    expect(manifest()).toMatchObject({
      name: `a-${template}`,
      private: true,
      type: "module",
      scripts: { start: "pawl start", test: "node --test", check: "tsc" },
    });
    expect(textOf("README.md")).toMatch(new RegExp(`^# a-${template}\n`));
    // What Pawl reads there may be a token or a password.
    expect(textOf(".gitignore").split("\n")).toContain(".env");
    const texts = created.map(textOf).join("\n");
    expect(texts).not.toContain("my-project");
    expect(texts).not.toContain("2026-01-01");
  }
});

test("the first day is thirty days ago, in the project and in its test", () => {
  make();
  expect(textOf("pawl.config.ts")).toContain('daily({ start: "2026-07-01" })');
  expect(textOf("pawl.test.ts")).toContain('const day = "2026-07-01";');
});

describe("a package.json that is there", () => {
  test("gets what it lacks, as `npm init` leaves it", () => {
    put(
      "package.json",
      JSON.stringify({
        name: "shop",
        type: "commonjs",
        scripts: { test: 'echo "Error: no test specified" && exit 1' },
      }),
    );
    const { changed } = make();
    expect(changed).toEqual([
      'Set "type" to "module" in package.json.',
      "Added start, dev, test, check to the scripts of package.json.",
      "Added pawl to the dependencies of package.json.",
      "Added @types/node, typescript to the devDependencies of package.json.",
    ]);
    expect(manifest()).toMatchObject({ name: "shop", type: "module" });
    expect(manifest()["scripts"]).toMatchObject({ test: "node --test" });
  });

  test("keeps what it says", () => {
    const said = {
      type: "module",
      scripts: { start: "node server.js", test: "vitest" },
      dependencies: { pawl: "file:pawl.tgz" },
      devDependencies: { typescript: "6.0.0" },
      workspaces: ["packages/*"],
    };
    put("package.json", JSON.stringify(said));
    put("server.js", "export {};\n");
    expect(make().changed).toEqual([
      "Added dev, check to the scripts of package.json.",
      "Added @types/node to the devDependencies of package.json.",
    ]);
    expect(manifest()).toMatchObject(said);
  });

  test("stays in its order and with its indentation", () => {
    const said = { version: "1.0.0", type: "module", license: "MIT", scripts: {}, name: "shop" };
    put("package.json", JSON.stringify(said, null, "\t"));
    make();
    expect(Object.keys(manifest())).toEqual([
      ...Object.keys(said),
      "dependencies",
      "devDependencies",
    ]);
    expect(textOf("package.json")).toMatch(/^\{\n\t"version": "1\.0\.0",\n\t"type"/);
  });

  test("with everything stays as it was", () => {
    make();
    const before = textOf("package.json");
    rmSync(join(directory, "pawl.config.ts"));
    rmSync(join(directory, "pawl.test.ts"));
    const { changed, created, kept } = make();
    expect({ changed, created }).toEqual({
      changed: [],
      created: ["pawl.config.ts", "pawl.test.ts"],
    });
    expect(kept.toSorted()).toEqual([".gitignore", "README.md", "package.json", "tsconfig.json"]);
    expect(textOf("package.json")).toBe(before);
  });

  test.each([[{}], [{ type: "commonjs" }]])(
    "of code that may be CommonJS is refused: %j",
    (said) => {
      put("package.json", JSON.stringify(said));
      mkdirSync(join(directory, "lib"));
      put("lib/shop.js", "module.exports = {};\n");
      expect(() => make()).toThrow(/lib.shop\.js may rely on.*Set "type" to "module" there/);
      expect(readdirSync(directory).toSorted()).toEqual(["lib", "package.json"]);
    },
  );

  test("that is none is refused, with its path", () => {
    put("package.json", "{");
    expect(() => make()).toThrow(
      `${join(directory, "package.json")} is not a valid package.json; correct it first.`,
    );
    expect(readdirSync(directory)).toEqual(["package.json"]);
  });
});

test("code that is there is not written over, and then nothing is written", () => {
  put("warehouse.ts", "export {};\n");
  expect(() => make("duckdb")).toThrow(
    `warehouse.ts exists already in ${directory}; nothing was changed. Name another directory.`,
  );
  expect(readdirSync(directory)).toEqual(["warehouse.ts"]);
  expect(make("assets").created).toContain("pawl.config.ts");
});

test("a link that leads nowhere and a folder in place of a file are in the way", () => {
  symlinkSync("nowhere.ts", join(directory, "pawl.config.ts"));
  mkdirSync(join(directory, ".gitignore"));
  expect(() => make()).toThrow(/^\.gitignore, pawl\.config\.ts exist already/);
  expect(readdirSync(directory).toSorted()).toEqual([".gitignore", "pawl.config.ts"]);
});

test("a .gitignore gets what it does not name, a README stays", () => {
  put(".gitignore", "/node_modules\n*.log");
  put("README.md", "# Shop\n");
  const { changed, kept } = make();
  expect(changed).toEqual(["Added .pawl/, data/, .env to .gitignore."]);
  expect(kept).toEqual(["README.md"]);
  expect(textOf(".gitignore")).toBe("/node_modules\n*.log\n.pawl/\ndata/\n.env\n");
  expect(textOf("README.md")).toBe("# Shop\n");
});

test("a folder that is not there is made", () => {
  directory = join(directory, "deep", "inside");
  make();
  expect(existsSync(join(directory, "pawl.config.ts"))).toBe(true);
});
