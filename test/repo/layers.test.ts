import { dirname, posix } from "node:path";
import { describe, expect, test } from "vitest";
import { type SourceFile, sourceFiles } from "./source-files.ts";

/** Which folders of `src` a folder may import, besides itself. The same table is in the documents. */
const ALLOWED: Record<string, readonly string[]> = {
  kernel: [],
  work: ["kernel"],
  define: ["kernel", "work"],
  store: ["kernel", "work"],
  client: ["kernel", "work"],
  engine: ["kernel", "work", "store"],
  shards: ["kernel", "work", "client"],
  evm: ["kernel", "work", "define"],
  external: ["kernel", "work", "define"],
  worker: ["kernel", "work", "define", "client", "shards", "external"],
  server: ["kernel", "work", "store/store.ts", "engine"],
};

/** Which siblings a kind of work may import besides `run`. */
const SIBLINGS: Record<string, readonly string[]> = {
  asset: ["backfill", "definition", "requires", "sync"],
  backfill: ["asset", "definition"],
  definition: ["asset", "move", "requires", "schedule", "sensor", "shard", "sync", "webhook"],
  move: ["asset", "backfill", "definition", "shard"],
  requires: ["asset", "definition"],
  routing: ["shard", "split"],
  run: ["asset", "backfill", "definition", "requires", "shard", "sync"],
  schedule: ["asset", "backfill", "definition"],
  sensor: ["asset", "backfill", "definition"],
  shard: ["definition", "move"],
  split: ["asset", "backfill", "definition", "move", "routing", "shard"],
  sync: ["asset", "backfill", "definition"],
  webhook: ["definition", "sensor", "shard"],
};

/** Code for all kinds of work: it goes over their list and asks of none. Keys of events are made for each. */
const SHARED = /^src\/(?:kernel|engine|store|server\/http|work\/(?!keys\.)[^/]+\.ts$)/;
const KIND_NAMES = "asset|backfill|chunk|sync|segment|move|split|shards|schedule|sensor";
const ASKS_KIND = new RegExp(
  `(?:(?:\\.|\\b)(?:type|work|kind) [!=]== |\\bcase )"(?:${KIND_NAMES})"`,
);

/** These wire everything together. */
const UNBOUND = new Set(["cli", "embedded", "testing", "index.ts"]);

/** Layers that must not know where and when they run, and the libraries that keep to that too. */
const PURE = new Set(["kernel", "work", "define"]);
const PURE_LIBRARIES = new Set(["croner", "temporal-polyfill", "zod"]);

/** What the page calculates with the same code as the server; the rest of it asks the API. */
const SHARED_WITH_PAGE = new Set([
  "src/kernel/canonical.ts",
  "src/kernel/intervals.ts",
  "src/kernel/metadata-value.ts",
  "src/kernel/keyspace/civil-time.ts",
  "src/kernel/keyspace/pairs-text.ts",
  "src/kernel/keyspace/time-grid.ts",
  "src/work/asset/select-assets.ts",
  "src/work/command.ts",
  ...["backfill", "definition", "move", "split", "sync"].map((kind) => `src/work/${kind}/rules.ts`),
]);

const IMPURE: readonly RegExp[] = [
  /\bDate\.now\b/,
  /\bnew Date\(\s*\)/,
  /\bDate\(\s*\)/,
  /\bMath\.random\b/,
  /\bperformance\./,
  /\bcrypto\./,
  /\bTemporal\.Now\b/,
  /\bprocess\./,
  /\bglobalThis\b/,
  /\bset(?:Timeout|Interval|Immediate)\b/,
  /\bqueueMicrotask\b/,
  /\bfetch\(/,
  /\bconsole\./,
];

const LINES_MAX = 500;
/** Below it a file is read together with the one that it serves. */
const SMALL = 60;
/** Of a folder of `src`, tests counted. */
const FILES_MAX = 25;
const VAGUE_NAMES = /^(?:utils?|helpers?|common|types?|interfaces?|managers?|misc)$/;
const KEBAB_CASE = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.(?:test|config|d))*\.[a-z]+$/;
/** Written so that it does not find itself. */
const UNFINISHED = /\b(?:T[O]DO|F[I]XME|X{3}|H[A]CK)\b/;
const SWITCHED_OFF_TEST = /\b(?:test|it|describe)\.(?:skip|only|todo|fails)\b/;

const CODE = /\.(?:[cm]?[jt]sx?)$/;
const isCode = (file: SourceFile): boolean => CODE.test(file.path);
const isTest = (file: SourceFile): boolean => file.path.endsWith(".test.ts");

const everything = sourceFiles();
const inFolder = (...folders: string[]): SourceFile[] =>
  everything.filter((file) => folders.some((folder) => file.path.startsWith(`${folder}/`)));
const sources = inFolder("src").filter(isCode);

/** Every module that a file names: static, dynamic and type imports, and re-exports. */
function importsOf(file: SourceFile): string[] {
  const named = withoutComments(file.text).matchAll(
    /(?:\bfrom\s*|\bimport\s*\(?\s*)(?:"([^"\n]+)"|'([^'\n]+)'|`([^`\n]+)`)/g,
  );
  return [...named].map((match) => match[1] ?? match[2] ?? match[3] ?? "");
}

/** A `//` inside a text, as in a URL, has no space before it. */
function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|\s)\/\/.*$/gm, "$1");
}

/** The path from the root that a relative import of a file leads to. */
function target(file: SourceFile, specifier: string): string {
  return posix.join(dirname(file.path), specifier);
}

/** The folder of `src` that a path lies in; for a file directly in `src`, the file. */
function layerOf(path: string): string {
  return path.split("/")[1] ?? "";
}

function isImportAllowed(file: SourceFile, specifier: string): boolean {
  const layer = layerOf(file.path);
  if (!specifier.startsWith(".")) {
    return !PURE.has(layer) || isTest(file) || PURE_LIBRARIES.has(packageOf(specifier));
  }
  const path = target(file, specifier);
  if (!path.startsWith("src/")) return isTest(file) && path.startsWith("test/");
  if (UNBOUND.has(layer) || layerOf(path) === layer) return true;
  const inSrc = path.slice("src/".length);
  return (ALLOWED[layer] ?? []).some(
    (allowed) => inSrc === allowed || inSrc.startsWith(`${allowed}/`),
  );
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

describe("layers", () => {
  test("every folder of src is a layer that the table knows", () => {
    const known = new Set([...Object.keys(ALLOWED), ...UNBOUND]);
    expect(sources.map(({ path }) => layerOf(path)).filter((layer) => !known.has(layer))).toEqual(
      [],
    );
  });

  test("a layer imports only the layers below it", () => {
    const broken = sources.flatMap((file) =>
      importsOf(file)
        .filter((specifier) => !isImportAllowed(file, specifier))
        .map((specifier) => `${file.path} imports ${specifier}`),
    );
    expect(broken).toEqual([]);
  });

  test("a kind of work imports runs and the siblings that the table names", () => {
    const kindOf = (path: string): string | undefined => /^src\/work\/([^/]+)\//.exec(path)?.[1];
    const broken = sources.flatMap((file) => {
      const kind = kindOf(file.path);
      if (kind === undefined || isTest(file)) return [];
      const allowed = new Set([kind, "run", ...(SIBLINGS[kind] ?? [])]);
      return importsOf(file)
        .map((specifier) => kindOf(target(file, specifier)))
        .filter((other) => other !== undefined && !allowed.has(other))
        .map((other) => `${file.path} imports ${other}`);
    });
    expect(broken).toEqual([]);
  });

  test("shared code never asks which kind of work something is", () => {
    const broken = sources.filter(
      (file) => SHARED.test(file.path) && !isTest(file) && ASKS_KIND.test(file.text),
    );
    expect(broken.map(({ path }) => path)).toEqual([]);
  });

  test("rows are never cast", () => {
    const cast = /\bas (?:readonly )?(?!Any)[A-Z][A-Za-z]*Row(?:\[\])?\b/;
    const broken = sources.filter((file) => !isTest(file) && cast.test(file.text));
    expect(broken.map(({ path }) => path)).toEqual([]);
  });

  test("the page imports types of the API and pure arithmetic, and nothing else of ours", () => {
    const isAllowed = (file: SourceFile, specifier: string): boolean => {
      const path = target(file, specifier);
      if (path.startsWith("ui/") || isTest(file) || SHARED_WITH_PAGE.has(path)) return true;
      const isTypeOnly = new RegExp(`import type [^;]*from "${specifier}"`).test(file.text);
      return isTypeOnly && /^src\/(?:kernel|work|client)\//.test(path);
    };
    const broken = inFolder("ui/src")
      .filter(isCode)
      .flatMap((file) =>
        importsOf(file)
          .filter((specifier) => specifier.startsWith(".") && !isAllowed(file, specifier))
          .map((specifier) => `${file.path} imports ${specifier}`),
      );
    expect(broken).toEqual([]);
  });

  test("the rules of commands load nothing but one another, for the page has them too", () => {
    const shared = sources.filter(({ path }) => SHARED_WITH_PAGE.has(path));
    expect(shared).toHaveLength(SHARED_WITH_PAGE.size);
    const light = new Set(["src/work/command.ts", "src/kernel/errors.ts"]);
    const broken = shared
      .filter(({ path }) => path.startsWith("src/work/"))
      .flatMap((file) =>
        [...file.text.matchAll(/^import (?!type )[^;]*? from "([^"]+)"/gm)]
          .map((match) => match[1] ?? "")
          .filter((specifier) => !light.has(target(file, specifier)))
          .map((specifier) => `${file.path} imports ${specifier}`),
      );
    expect(broken).toEqual([]);
  });

  test("the pure layers read no clock, no randomness and no surroundings", () => {
    const pure = sources.filter((file) => PURE.has(layerOf(file.path)) && !isTest(file));
    const broken = pure.flatMap((file) =>
      IMPURE.filter((word) => word.test(withoutComments(file.text))).map(
        (word) => `${file.path} has ${word.source}`,
      ),
    );
    expect(broken).toEqual([]);
  });
});

describe("files", () => {
  test(`no file of src or ui is longer than ${LINES_MAX} lines`, () => {
    const long = inFolder("src", "ui").filter(
      (file) => isCode(file) && file.text.split("\n").length - 1 > LINES_MAX,
    );
    expect(long.map(({ path }) => path)).toEqual([]);
  });

  test("no folder of src has more than 25 files, tests counted", () => {
    const folders = Map.groupBy(sources, ({ path }) => dirname(path));
    const broken = [...folders].filter(([, files]) => files.length > FILES_MAX);
    expect(broken.map(([folder, files]) => `${folder} has ${files.length}`)).toEqual([]);
  });

  test(`no file under ${SMALL} lines serves only one beside it, but what is tested by itself or a driver's twin`, () => {
    const code = sources.filter((file) => !isTest(file));
    const paths = new Set(sources.map(({ path }) => path));
    const importers = new Map<string, Set<string>>();
    for (const file of code) {
      for (const specifier of importsOf(file)) {
        const path = target(file, specifier);
        importers.set(path, (importers.get(path) ?? new Set()).add(file.path));
      }
    }
    const isTwin = (path: string): boolean =>
      ["sqlite", "postgres", "http"]
        .map((driver) => path.replace(/\/(?:sqlite|postgres|http)\//, `/${driver}/`))
        .some((twin) => twin !== path && paths.has(twin));
    const broken = code.filter(({ path, text }) => {
      const [importer, ...others] = importers.get(path) ?? [];
      if (text.split("\n").length - 1 >= SMALL || others.length > 0) return false;
      if (importer === undefined || dirname(importer) !== dirname(path)) return false;
      return !paths.has(path.replace(/\.ts$/, ".test.ts")) && !isTwin(path);
    });
    expect(broken.map(({ path }) => path)).toEqual([]);
  });

  test("names are in kebab-case and say what is inside", () => {
    const folders = ["src", "test", "ui", "scripts", "schema", "docs", "bench", "examples"];
    const code = inFolder(...folders, "templates", "create-pawl");
    const broken = code.filter(({ path }) => {
      const parts = path.split("/");
      const name = parts.at(-1) ?? "";
      if (/^(?:README\.md|LICENSE|gitignore|\..*)$/.test(name)) return false;
      const stems = [...parts.slice(0, -1), name.split(".")[0] ?? ""];
      return !KEBAB_CASE.test(name) || stems.some((stem) => VAGUE_NAMES.test(stem));
    });
    expect(broken.map(({ path }) => path)).toEqual([]);
  });

  test("nothing is left unfinished", () => {
    const broken = everything.filter((file) => isCode(file) && UNFINISHED.test(file.text));
    expect(broken.map(({ path }) => path)).toEqual([]);
  });

  test("no test is switched off or switches off the others", () => {
    const tests = inFolder("src", "test", "ui").filter(isCode);
    const broken = tests.filter((file) => SWITCHED_OFF_TEST.test(file.text));
    expect(broken.map(({ path }) => path)).toEqual([]);
  });

  test("nothing is exported as a default", () => {
    const code = inFolder("src", "test", "ui", "scripts").filter(
      (file) => isCode(file) && !file.path.includes(".config."),
    );
    const broken = code.filter((file) =>
      /^export default\b|\bas default\b/m.test(withoutComments(file.text)),
    );
    expect(broken.map(({ path }) => path)).toEqual([]);
  });
});
