import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));

/** The version of each package, which are installed beside the benchmarks when they are not there. */
export function installPeers(packages: readonly string[]): Map<string, string> {
  const wanted = versionsIn(join(FOLDER, "package.json"));
  const isMissing = packages.some((name) => installedVersion(name) !== wanted.get(name));
  if (isMissing) install();
  return new Map(
    packages.map((name) => {
      const version = installedVersion(name);
      if (version === null || version !== wanted.get(name)) {
        throw new Error(`${name} is not there. Install it with \`npm ci --prefix bench\`.`);
      }
      return [name, version];
    }),
  );
}

function versionsIn(file: string): Map<string, string> {
  const { dependencies } = JSON.parse(readFileSync(file, "utf8")) as {
    dependencies: Record<string, string>;
  };
  return new Map(Object.entries(dependencies));
}

function installedVersion(name: string): string | null {
  const file = join(FOLDER, "node_modules", name, "package.json");
  if (!existsSync(file)) return null;
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

/** Without the packages' own scripts: none of those that are measured has any. */
function install(): void {
  console.error("Installing what Pawl is measured beside (npm ci --prefix bench).");
  const { npm_node_execpath: node, npm_execpath: script } = process.env;
  const [command = "npm", ...before] = node && script ? [node, script] : ["npm"];
  const options = ["ci", "--prefix", FOLDER, "--ignore-scripts", "--loglevel=error"];
  spawnSync(command, [...before, ...options], { stdio: ["ignore", "ignore", "inherit"] });
}
