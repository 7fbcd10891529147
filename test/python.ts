import { spawnSync } from "node:child_process";

/**
 * Sees to it that there is a `python3`: the one on the path, else Debian's package, which is installed
 * when that is possible. Tests that run Python need it and are never left out: without it they fail.
 */
export function needPython(): void {
  if (hasPython()) return;
  if (process.getuid?.() === 0) {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const install = ["install", "-y", "--no-install-recommends", "python3"];
    const isInstalled = () => spawnSync("apt-get", install, { env, stdio: "ignore" }).status === 0;
    if (!isInstalled()) {
      spawnSync("apt-get", ["update"], { env, stdio: "ignore" });
      isInstalled();
    }
  }
  if (hasPython()) return;
  throw new Error("These tests need Python 3. Install it (`apt-get install python3`).");
}

function hasPython(): boolean {
  return spawnSync("python3", ["--version"], { stdio: "ignore" }).status === 0;
}
