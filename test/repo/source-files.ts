import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

/** A file of this repository. */
export type SourceFile = {
  /** From the root of the repository, with `/`. */
  readonly path: string;
  readonly text: string;
};

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Not ours, or not kept: what `.gitignore` names. */
const IGNORED = new Set([".git", ".pawl", "coverage", "dist", "node_modules"]);

/** All text files under a folder, or in the whole repository. */
export function sourceFiles(folder = ""): SourceFile[] {
  return pathsIn(join(ROOT, folder)).map((path) => ({
    path: relative(ROOT, path).replaceAll("\\", "/"),
    text: readFileSync(path, "utf8"),
  }));
}

/** The text of one file, by its path from the root. */
export function readSource(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

function pathsIn(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.flatMap((entry) => {
    if (IGNORED.has(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return pathsIn(path);
    return entry.isFile() ? [path] : [];
  });
}
