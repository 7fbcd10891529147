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

/** Runs `npm ci` on the machine's Node: the clone's own is about to be replaced. */
function install() {
  const env = { ...process.env };
  env.PATH = (env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => folder !== bin)
    .join(delimiter);

  const npm = process.env.npm_execpath;
  const node = process.env.npm_node_execpath;
  const [command, ...args] = npm && node ? [node, npm, "ci"] : ["npm", "ci"];
  const { status, error } = spawnSync(command, args, { cwd: root, env, stdio: "inherit" });
  if (error) console.error(`npm ci could not be started: ${error.message}`);
  return status ?? 1;
}
