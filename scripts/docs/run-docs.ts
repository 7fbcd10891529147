/**
 * `npm run docs`: the documentation as a site, to read and to search. `npm run docs -- --build` writes it as files into
 * `docs/dist/site`, for any server of files. What the site is made with is installed when it is not there.
 */
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, watch, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ROOT, sitePages } from "./site-pages.ts";

const DOCS = join(ROOT, "docs");
const MADE = join(DOCS, "dist");
const VITEPRESS = join(DOCS, "node_modules", "vitepress");
/** What the pages are made of; the references come from code that is loaded once. */
const WATCHED = ["docs", "examples"];

const args = process.argv.slice(2);
const isBuild = args.includes("--build");

install();
await writePages();
const rest = args.filter((each) => each !== "--build");
const command = [isBuild ? "build" : "dev", ".", ...rest];
if (!isBuild) watchPages();
const child = spawn(process.execPath, [join(VITEPRESS, "bin", "vitepress.js"), ...command], {
  cwd: DOCS,
  stdio: "inherit",
});
// Whoever ends this ends the site as well.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
child.once("close", (code) => {
  if (isBuild && code === 0) console.log(`The site is in ${join(MADE, "site")}.`);
  process.exit(code ?? 1);
});

/** Without the packages' own scripts, which none of them needs. */
function install(): void {
  if (wanted() === installed()) return;
  console.log("Installing what the site is made with (npm ci --prefix docs).");
  const { npm_node_execpath: node, npm_execpath: script } = process.env;
  const [npm = "npm", ...before] = node && script ? [node, script] : ["npm"];
  const options = ["ci", "--prefix", DOCS, "--ignore-scripts", "--loglevel=error"];
  const { status } = spawnSync(npm, [...before, ...options], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

function wanted(): string | undefined {
  const { dependencies } = JSON.parse(readFileSync(join(DOCS, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  return dependencies["vitepress"];
}

function installed(): string | undefined {
  const file = join(VITEPRESS, "package.json");
  if (!existsSync(file)) return undefined;
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

/** Writes what has changed, and only that, so that a page that is looked at is not loaded for nothing. */
async function writePages(): Promise<void> {
  const { pages, files, sidebar } = await sitePages();
  if (isBuild) rmSync(MADE, { recursive: true, force: true });
  for (const [path, text] of pages) write(join(MADE, "pages", path), text);
  for (const [path, from] of files) copy(join(ROOT, from), join(MADE, "pages", path));
  copy(join(ROOT, "ui", "public", "pawl.svg"), join(MADE, "pages", "public", "pawl.svg"));
  write(join(MADE, "sidebar.json"), JSON.stringify(sidebar));
}

function write(file: string, text: string): void {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to);
}

/** Editors write a file in several steps, so the pages are made anew when it has been quiet for a moment. */
function watchPages(): void {
  let timer: NodeJS.Timeout | undefined;
  for (const folder of WATCHED) {
    watch(join(ROOT, folder), { recursive: true }, (_, file) => {
      if (
        file === null ||
        !/\.(?:md|svg)$/.test(file) ||
        /(?:^|\/)(?:dist|node_modules)\//.test(file)
      )
        return;
      clearTimeout(timer);
      timer = setTimeout(() => {
        writePages().catch((error: unknown) => console.error(error));
      }, 100);
    });
  }
}
