import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/**
 * The Chromium of this machine: the one at `CHROME_PATH`, one on the path, else Debian's package,
 * which is installed when that is possible.
 */
export function chromiumPath(): string {
  const given = process.env["CHROME_PATH"];
  if (given !== undefined && given !== "") return given;
  const found = findChromium();
  if (found !== null) return found;
  installChromium();
  const installed = findChromium();
  if (installed !== null) return installed;
  throw new Error(
    "The tests of the page need Chromium. Install it (`apt-get install chromium`), or say where " +
      "it is with CHROME_PATH.",
  );
}

/** What keeps it from asking the network for what nobody wants, and lets it run as root. */
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts a Chromium without a window, with these arguments besides. */
export function launchChromium(
  executablePath: string,
  more: readonly string[] = [],
): Promise<Browser> {
  return chromium.launch({ executablePath, args: [...ARGUMENTS, ...more] });
}

function findChromium(): string | null {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    for (const name of NAMES) {
      const path = join(folder, name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not here.
      }
    }
  }
  return null;
}

function installChromium(): void {
  if (process.getuid?.() !== 0) return;
  console.log("Installing Chromium (apt-get install chromium).");
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const install = ["install", "-y", "--no-install-recommends", "chromium", "fonts-inter"];
  const isInstalled = () => spawnSync("apt-get", install, { env, stdio: "ignore" }).status === 0;
  if (isInstalled()) return;
  spawnSync("apt-get", ["update"], { env, stdio: "ignore" });
  isInstalled();
}
