/**
 * Builds what is published, into `dist`: the sources as a few files, which start in a fraction of the
 * time of the many that they are, and the types of what users import. Libraries stay libraries,
 * installed beside it, but for zod. `--pack` makes the tarball of it, for tests, and says where it is.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { stampOf } from "./build-page.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const CACHE = join(ROOT, "node_modules", ".cache");
/** A copy of the package as it is installed, for processes that tests start. */
const INSTALLED = join(CACHE, "pawl-package");
const SOURCES = [
  "src/**/*.ts",
  "schema/**/*",
  "bin/*",
  "templates/**/*",
  "package.json",
  "package-lock.json",
  "scripts/build-package.ts",
];

/** What is published as it is, besides the sources. */
const PUBLISHED_TEXTS = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "LICENSE",
  "docs/**/*",
  "examples/**/*",
];

/**
 * Where each part goes. What lies in the package is looked for two folders up, and threads and workers
 * beside whoever starts them, so they are among the chunks.
 */
const PARTS = {
  "cli/main": "src/cli/main.ts",
  index: "src/index.ts",
  "evm/index": "src/evm/index.ts",
  "testing/index": "src/testing/index.ts",
  "embedded/index": "src/embedded/index.ts",
  "chunks/worker-process": "src/worker/worker-process.ts",
  "chunks/lease-keeper-thread": "src/worker/lease-keeper-thread.ts",
  "chunks/checkpoint-thread": "src/store/sqlite/checkpoint-thread.ts",
};

/** What users import: the files whose types are published, with all that these name. */
const PUBLIC = ["index", "evm/index", "testing/index", "embedded/index"];

/**
 * The one library that is bundled: read from its 95 files, of which 50 are translations, it takes
 * 50 ms of every process. Its licence goes along.
 */
const BUNDLED = "zod";

/** Writes the bundled sources into the folder. */
async function bundle(dir: string): Promise<void> {
  // Only who bundles pays for loading it.
  const { rolldown } = await import("rolldown");
  const bundled = await rolldown({
    cwd: ROOT,
    platform: "node",
    input: PARTS,
    external: (id) => /^[^./]/u.test(id) && id !== BUNDLED,
  });
  await bundled.write({
    dir,
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "chunks/[name]-[hash].js",
    // With the sources in them, so that `node --enable-source-maps` shows these in stack traces.
    sourcemap: true,
    codeSplitting: { groups: [{ name: BUNDLED, test: `/node_modules/${BUNDLED}/` }] },
  });
  const licence = readFileSync(join(ROOT, "node_modules", BUNDLED, "LICENSE"), "utf8");
  writeFileSync(
    join(dir, "THIRD-PARTY-LICENSES.txt"),
    `chunks/${BUNDLED}-*.js is ${BUNDLED}, under this licence:\n\n${licence}`,
  );
}

/**
 * Writes the types of what users import into the folder, and below `src` the sources that they are of,
 * which is where "go to definition" leads.
 */
function writeTypes(dir: string): void {
  const made = join(CACHE, `pawl-types-${process.pid}`);
  try {
    const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
    const args = [tsc, "-p", join(ROOT, "tsconfig.build.json"), "--outDir", made];
    execFileSync(process.execPath, args, { stdio: "inherit" });
    const written = new Set<string>();
    for (const name of PUBLIC) writeTypesOf(name, { made, dir, written });
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

type Types = { readonly made: string; readonly dir: string; readonly written: Set<string> };

/** Writes the types of a source, and of all that these name. */
function writeTypesOf(name: string, types: Types): void {
  const { made, dir, written } = types;
  if (written.has(name)) return;
  written.add(name);
  const file = `${name}.d.ts`;
  const source = join("src", `${name}.ts`);
  const declared = readFileSync(join(made, file), "utf8");
  // A declaration may name a source by its `.ts`, but not every compiler takes it.
  const named = /((?:from |import\()"\.[^"]*)\.ts"/g;
  put(join(dir, file), declared.replaceAll(named, '$1.js"'));
  const map = JSON.parse(readFileSync(join(made, `${file}.map`), "utf8")) as { sources: string[] };
  map.sources = [relative(dirname(file), source)];
  put(join(dir, `${file}.map`), JSON.stringify(map));
  put(join(dir, source), readFileSync(join(ROOT, source), "utf8"));
  for (const [, start = ""] of declared.matchAll(named)) {
    writeTypesOf(join(dirname(name), start.slice(start.indexOf('"') + 1)), types);
  }
}

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
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
    for (const part of ["bin", "schema", "templates", "package.json"]) {
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

/**
 * Packs the package as it is published, unless that is done of the sources as they are; answers its
 * tarball. The page has to be built already.
 */
export async function packPackage(): Promise<string> {
  const command = await installPackage();
  const published = [...SOURCES, ...PUBLISHED_TEXTS, "dist/page-sources.txt"];
  const packed = join(CACHE, `pawl-packed-${stampOf(published).slice(0, 16)}`);
  if (!existsSync(packed)) {
    for (const old of globSync(join(CACHE, "pawl-packed-*"))) rmSync(old, { recursive: true });
    const made = join(CACHE, `pawl-packing-${process.pid}`);
    const staged = join(made, "package");
    rmSync(made, { recursive: true, force: true });
    const page = join("dist", "ui");
    cpSync(join(command, "..", ".."), staged, { recursive: true });
    // A link, in what tests start.
    rmSync(join(staged, page));
    cpSync(join(ROOT, page), join(staged, page), { recursive: true });
    for (const name of PUBLISHED_TEXTS) {
      const path = name.split("/")[0] ?? name;
      cpSync(join(ROOT, path), join(staged, path), { recursive: true });
    }
    writeTypes(join(staged, "dist"));
    const args = ["pack", "--ignore-scripts", "--silent", "--pack-destination", made];
    execFileSync("npm", args, { cwd: staged, stdio: ["ignore", "ignore", "inherit"] });
    rmSync(staged, { recursive: true });
    renameSync(made, packed);
  }
  return present(globSync(join(packed, "*.tgz"))[0]);
}

function present(path: string | undefined): string {
  if (path === undefined) throw new Error("npm pack has made no tarball.");
  return path;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--pack")) {
    console.log(await packPackage());
  } else {
    const dist = join(ROOT, "dist");
    writeTypes(dist);
    await bundle(dist);
  }
}
