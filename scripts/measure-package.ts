/**
 * Prints what a user gets: the package as it would be packed now, and each library that is installed
 * with it. `npm run build` first.
 */
import { execFileSync } from "node:child_process";
import { globSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

type Packed = { size: number; unpackedSize: number; files: { path: string; size: number }[] };
type Locked = {
  version: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
};

const [packed] = JSON.parse(
  execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts", "--silent"], {
    cwd: ROOT,
    encoding: "utf8",
  }),
) as [Packed];
console.log(
  `packed ${kilobytes(packed.size)}, unpacked ${kilobytes(packed.unpackedSize)}, ${packed.files.length} files`,
);
const kinds = Map.groupBy(packed.files, ({ path }) => kindOf(path));
for (const [kind, files] of kinds) {
  console.log(`  ${kind}: ${files.length} files, ${kilobytes(total(files))}`);
}

const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
  packages: Record<string, Locked>;
};
const direct = Object.keys(packages[""]?.dependencies ?? {});
const all = new Set<string>();
const lines = direct.map((name) => {
  const closure = closureOf("", name, new Set());
  for (const path of closure) all.add(path);
  const own = `node_modules/${name}`;
  const others = [...closure].filter((path) => path !== own);
  const version = packages[own]?.version;
  return (
    `  ${name} ${version}: ${kilobytes(sizeOf(own))}` +
    (others.length === 0
      ? ""
      : `, with ${others.length} more of ${kilobytes(sum(others.map(sizeOf)))}: ` +
        others.map((path) => path.replace(/^.*node_modules\//, "")).join(", "))
  );
});
console.log(
  `runtime dependencies: ${direct.length} direct, ${all.size} in all, ${kilobytes(sum([...all].map(sizeOf)))}`,
);
for (const line of lines) console.log(line);

function kindOf(path: string): string {
  if (path.startsWith("dist/ui/")) return "the page";
  if (path.endsWith(".d.ts") || path.endsWith(".d.ts.map")) return "types";
  if (path.startsWith("dist/src/")) return "sources of types";
  if (path.endsWith(".js.map")) return "source maps";
  if (path.endsWith(".js")) return "bundles";
  return "all else";
}

/** Where a library and all that it needs are installed; what is not here is for other machines. */
function closureOf(from: string, name: string, found: Set<string>): Set<string> {
  const path = installedPath(from, name);
  if (path === null || found.has(path)) return found;
  found.add(path);
  const { dependencies, optionalDependencies } = packages[path] ?? {};
  for (const next of Object.keys({ ...dependencies, ...optionalDependencies })) {
    closureOf(path, next, found);
  }
  return found;
}

/** As Node looks for it: in the folder of whoever needs it, and in all above. */
function installedPath(from: string, name: string): string | null {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    const path = at === "" ? `node_modules/${name}` : `${at}/node_modules/${name}`;
    if (packages[path] !== undefined) return path;
    if (at === "") return null;
  }
}

function sizeOf(path: string): number {
  const cwd = join(ROOT, path);
  return sum(globSync("**", { cwd }).map((file) => fileSize(join(cwd, file))));
}

function fileSize(path: string): number {
  const entry = statSync(path);
  return entry.isFile() ? entry.size : 0;
}

function total(files: readonly { size: number }[]): number {
  return sum(files.map(({ size }) => size));
}

function sum(values: readonly number[]): number {
  return values.reduce((one, other) => one + other, 0);
}

function kilobytes(bytes: number): string {
  return `${Math.round(bytes / 1_000).toLocaleString("en")} kB`;
}
