/**
 * Builds what is published, into `dist`: the sources as a few files, which start in half the time of
 * the many that they are. Libraries stay libraries, installed beside it.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stampOf } from "./build-page.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** A copy of the package as it is installed, for processes that tests start. */
const INSTALLED = join(ROOT, "node_modules", ".cache", "pawl-package");
const SOURCES = ["src/**/*.ts", "schema/**/*", "bin/*", "package.json", "package-lock.json"];

/**
 * Where each part goes. What lies in the package is looked for two folders up, and threads and workers
 * beside whoever starts them, so they are among the chunks.
 */
const PARTS = {
  "cli/main": "src/cli/main.ts",
  index: "src/index.ts",
  "evm/index": "src/evm/index.ts",
  "chunks/worker-process": "src/worker/worker-process.ts",
  "chunks/lease-keeper-thread": "src/worker/lease-keeper-thread.ts",
  "chunks/checkpoint-thread": "src/store/sqlite/checkpoint-thread.ts",
};

/** Writes the bundled sources into the folder. */
async function bundle(dir: string): Promise<void> {
  // Only who bundles pays for loading it.
  const { rolldown } = await import("rolldown");
  const bundled = await rolldown({
    cwd: ROOT,
    platform: "node",
    input: PARTS,
    external: /^[^./]/u,
  });
  await bundled.write({
    dir,
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "chunks/[name]-[hash].js",
    sourcemap: true,
  });
}

/** Makes the package as it is installed, unless it is there as the sources are; answers its command. */
export async function installPackage(): Promise<string> {
  const stamp = stampOf(SOURCES);
  const file = join(INSTALLED, "sources.txt");
  const isThere = existsSync(file) && readFileSync(file, "utf8") === stamp;
  if (!isThere) {
    const made = `${INSTALLED}-${process.pid}`;
    rmSync(made, { recursive: true, force: true });
    mkdirSync(made, { recursive: true });
    for (const part of ["bin", "schema", "package.json"]) {
      cpSync(join(ROOT, part), join(made, part), { recursive: true });
    }
    await bundle(join(made, "dist"));
    symlinkSync(join(ROOT, "dist", "ui"), join(made, "dist", "ui"));
    writeFileSync(join(made, "sources.txt"), stamp);
    rmSync(INSTALLED, { recursive: true, force: true });
    renameSync(made, INSTALLED);
  }
  return join(INSTALLED, "bin", "pawl");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle(join(ROOT, "dist"));
