import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { packPackage } from "../scripts/build-package.ts";
import { buildPage } from "../scripts/build-page.ts";
import { startRegistry } from "../test/end-to-end/npm-registry.ts";
import { type Bench, type Figure, atMost } from "./benchmark.ts";
import { keepTrack } from "./child-process.ts";

const CLONE_BIN = fileURLToPath(new URL("../node_modules/.bin", import.meta.url));
const COMMAND = "npx pawl backfill create visits report --all --wait";

/** How long a newcomer takes from an empty folder to a backfill of the project's own assets on the page. */
export async function firstBackfill({ folder, say }: Bench): Promise<Figure[]> {
  await buildPage();
  const registry = await startRegistry([await packPackage()]);
  try {
    const home = join(folder, "home");
    const bin = join(folder, "bin");
    mkdirSync(home);
    mkdirSync(bin);
    symlinkSync(process.execPath, join(bin, "node"));
    const settings = ["audit=false", "fund=false", "update-notifier=false"];
    writeFileSync(join(home, ".npmrc"), `registry=${registry.url}\n${settings.join("\n")}\n`);
    const others = (process.env["PATH"] ?? "")
      .split(delimiter)
      .filter((path) => path !== CLONE_BIN);
    const env = { PATH: [bin, ...others].join(delimiter), HOME: home, PAWL_PORT: "0" };

    // The first time fills the cache of npm.
    const secondsCold = await fourCommands(join(folder, "first"), env);
    say(`the first time, with an empty cache of npm: ${secondsCold.toFixed(1)} s`);
    const seconds = await fourCommands(join(folder, "second"), env);
    const what = "an empty folder to a backfill on the page, four commands";
    return [atMost(what, "packaged, warm npm cache", seconds, 120, "s")];
  } finally {
    registry.close();
  }
}

/** Types what the README says, and answers how many seconds it was until the page has the backfill. */
async function fourCommands(folder: string, env: Record<string, string>): Promise<number> {
  mkdirSync(folder);
  // Not synchronously: the registry is in this process.
  const type = async (line: string): Promise<void> => {
    const [command = "", ...args] = line.split(" ");
    const child = spawn(command, args, { cwd: folder, env, stdio: "ignore" });
    await keepTrack(child);
    if (child.exitCode !== 0) throw new Error(`${line} ended with the exit code ${child.exitCode}`);
  };
  const startedMs = performance.now();
  await type("npx --yes pawl init");
  await type("npm install");
  const server = spawn("npm", ["start"], {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = keepTrack(server);
  await new Promise<void>((resolve, reject) => {
    let said = "";
    server.stdout.on("data", (part: Buffer) => {
      said += part.toString();
      if (said.includes("listens on")) resolve();
    });
    void gone.then(() => reject(new Error(`The server ended: ${said}`)));
  });
  const { url, pid } = JSON.parse(readFileSync(join(folder, ".pawl", "server.json"), "utf8")) as {
    url: string;
    pid: number;
  };
  try {
    await type(COMMAND);
    const page = await (await fetch(url)).text();
    const list = await (await fetch(`${url}/api/v1/orchestration/backfills`)).text();
    if (!page.includes("<title>") || !list.includes('"SUCCEEDED"')) throw new Error(list);
    return (performance.now() - startedMs) / 1_000;
  } finally {
    process.kill(pid, "SIGTERM");
    await gone;
  }
}
