/**
 * Builds the web page into `dist/ui` when it is not there or is not made of the sources as they are
 * now; `npm start` and `npm test` call it first. `--force` builds it in any case.
 */
import { createHash } from "node:crypto";
import {
  type Dirent,
  existsSync,
  globSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PAGE = join(ROOT, "dist", "ui");
/** Beside the page rather than in it: what is in there is served. */
const STAMP = join(ROOT, "dist", "page-sources.txt");

/** What the page is made of: its own files, and the operations whose addresses it knows. */
const SOURCES = ["ui/**/*", "src/kernel/**/*.ts", "src/work/**/*.ts", "package-lock.json"];

/** Builds the page if that is needed; the one before stays until the new one is whole. */
export async function buildPage(options: { force?: boolean } = {}): Promise<void> {
  const stamp = stampOf(SOURCES);
  const isThere = existsSync(join(PAGE, "index.html")) && existsSync(STAMP);
  if (options.force !== true && isThere && readFileSync(STAMP, "utf8") === stamp) return;
  console.error("Building the page (vite build).");
  const outDir = `${PAGE}-${process.pid}`;
  try {
    const configFile = join(ROOT, "ui", "vite.config.ts");
    await build({ configFile, logLevel: "warn", build: { outDir } });
    rmSync(PAGE, { recursive: true, force: true });
    renameSync(outDir, PAGE);
  } finally {
    rmSync(outDir, { recursive: true, force: true });
  }
  writeFileSync(STAMP, stamp);
}

/** Changes whenever one of these files does. Our own tests do not count; those of templates are shipped. */
export function stampOf(sources: readonly string[]): string {
  const hash = createHash("sha256");
  const isTest = ({ name, parentPath }: Dirent): boolean =>
    name.includes(".test.") && !parentPath.includes("templates");
  const files = globSync(sources, { cwd: ROOT, withFileTypes: true })
    .filter((entry) => entry.isFile() && !isTest(entry))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
  for (const file of files) hash.update(`${file.slice(ROOT.length)}\n`).update(readFileSync(file));
  return hash.digest("hex");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await buildPage({ force: process.argv.includes("--force") });
}
