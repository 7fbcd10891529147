/**
 * `node scripts/measure-house.ts`: measures how the sources are laid out, so that anybody can see
 * where they stand. The numbers are those of the working tree.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const KINDS = ["run", "backfill", "sync", "move", "split", "schedule", "sensor"] as const;
const SMALL = 60;

/** Folders whose code is for all kinds of work. */
const SHARED = /^src\/(?:kernel|engine|store|server\/http)\//;
/** Asking which kind something is. */
const ASKS_KIND =
  /(?:\.(?:type|work|kind)|\b(?:type|work|kind)) [!=]== "(?:asset|backfill|chunk|sync|segment|move|split|shards|schedule|sensor)"/;
const ROW_CAST = /\bas (?:readonly )?(?!Any)[A-Z][A-Za-z]*Row(?:\[\])?\b/g;

type Source = { path: string; text: string; isTest: boolean };

const sources = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts"))
  .map((path): Source => {
    const text = readFileSync(join(ROOT, "src", path), "utf8");
    return { path: posix.join("src", path), text, isTest: path.endsWith(".test.ts") };
  })
  .toSorted((a, b) => a.path.localeCompare(b.path));
const code = sources.filter(({ isTest }) => !isTest);

const importers = new Map<string, Set<string>>();
for (const { path, text } of code) {
  for (const [, specifier = ""] of text.matchAll(/(?:from|import\() ?"(\.[^"]+)"/g)) {
    const target = posix.join(dirname(path), specifier);
    importers.set(target, (importers.get(target) ?? new Set()).add(path));
  }
}

const linesOf = ({ text }: Source): number => text.split("\n").length - 1;
const count = (isCounted: (source: Source) => boolean): number => code.filter(isCounted).length;

/** Folders with a file that belongs to the kind, by its name or by that of its folder. */
function foldersOf(kind: string): number {
  // At the beginning of a file's name "run" is a verb, as in `run-worker.ts`.
  const after = kind === "run" ? "[./]" : "[-./]";
  const word = new RegExp(`(?:^|[-/])${kind}s?(?:${after}|$)`);
  const own = code.filter(({ path }) => word.test(path.slice("src/".length)));
  return new Set(own.map(({ path }) => dirname(path))).size;
}

function filesByFolder(): [folder: string, files: number][] {
  const folders = Map.groupBy(sources, ({ path }) => dirname(path));
  return [...folders]
    .map(([folder, files]): [string, number] => [folder, files.length])
    .toSorted(([, a], [, b]) => b - a);
}

/** Names that are exported by several files; drivers that keep one contract count as one. */
function namesOfTwoThings(): string[] {
  const exporters = new Map<string, Set<string>>();
  for (const { path, text } of code) {
    const names = text.matchAll(
      /^export (?:async )?(?:abstract )?(?:function\*?|const|class|type|interface) (\w+)/gm,
    );
    for (const [, name = ""] of names) {
      const place = path.replace(/\/(?:sqlite|postgres|http)\/.*/, "/<driver>");
      exporters.set(name, (exporters.get(name) ?? new Set()).add(place));
    }
  }
  return [...exporters].filter(([, places]) => places.size > 1).map(([name]) => name);
}

/** The files that the walks of docs/architecture.md name, by the walk's heading. */
function walks(): [walk: string, files: number, folders: number][] {
  const text = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");
  return [...text.matchAll(/^### Walk: (.+)\n([\s\S]*?)(?=^##|(?![\s\S]))/gm)].map(
    ([, walk = "", body = ""]) => {
      const files = new Set([...body.matchAll(/`(src\/[^`]+\.ts)`/g)].map(([, file = ""]) => file));
      return [walk, files.size, new Set([...files].map((file) => dirname(file))).size];
    },
  );
}

const casts = code.reduce((sum, { text }) => sum + [...text.matchAll(ROW_CAST)].length, 0);
const asking = code.filter(({ path, text }) => SHARED.test(path) && ASKS_KIND.test(text));
const doubled = namesOfTwoThings();
const [fullest = ["", 0]] = filesByFolder();

const table: [what: string, now: string | number, toBe: string][] = [
  ["files of src without tests", code.length, "about 380"],
  ["… with one importer", count(({ path }) => importers.get(path)?.size === 1), ""],
  [`… with at most ${SMALL} lines`, count((source) => linesOf(source) <= SMALL), ""],
  ["lines", code.reduce((sum, source) => sum + linesOf(source), 0), "≤ 77,000"],
  ...KINDS.map((kind): [string, number, string] => [
    `folders that ${kind} is in`,
    foldersOf(kind),
    "≤ 6",
  ]),
  ["most files in one folder, tests counted", `${fullest[1]} (${fullest[0]})`, "≤ 25"],
  ...walks().map(([walk, files, folders]): [string, string, string] => [
    `files to follow ${walk}`,
    `${files} in ${folders} folders`,
    "≤ 35",
  ]),
  ["files of shared code that ask which kind it is", asking.length, "0"],
  ["casts of rows", casts, "0"],
  ["exported names that stand for two or more things", doubled.length, "drivers only"],
];
const width = Math.max(...table.map(([what]) => what.length));
for (const [what, now, toBe] of table) {
  console.log(`${what.padEnd(width)}  ${String(now).padStart(10)}  ${toBe}`.trimEnd());
}
if (process.argv.includes("--names")) {
  console.log(`\nasking: ${asking.map(({ path }) => path).join(" ")}`);
  console.log(`doubled: ${doubled.toSorted().join(" ")}`);
  console.log(
    `fullest: ${filesByFolder()
      .slice(0, 10)
      .map((each) => each.join(" "))
      .join(", ")}`,
  );
}
