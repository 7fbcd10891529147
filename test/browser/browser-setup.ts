import { spawn, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { chromiumPath } from "./chromium.ts";

declare module "vitest" {
  interface ProvidedContext {
    /**
     * Answers with the path of Chromium once the page is built, which the first who asks starts; below
     * `/empty` with a document that has nothing in it.
     */
    browserDoorUrl: string;
  }
}

let built: Promise<string> | null = null;
let prepared: Promise<string> | null = null;
let packed: Promise<string> | null = null;

/**
 * Has the page built, a Chromium and the tarball with that page at hand for the tests that want them,
 * once for the whole run.
 */
export async function setup(project: TestProject): Promise<() => void> {
  const door = createServer((request, response) => {
    if (request.url === "/empty") {
      response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>");
      return;
    }
    built ??= runScript("build-page.ts");
    const asked =
      request.url === "/packed"
        ? (packed ??= built.then(() => runScript("build-package.ts", "--pack")))
        : (prepared ??= built.then(chromiumPath));
    asked.then(
      (path) => response.end(path),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  door.listen(0, "127.0.0.1");
  await once(door, "listening");
  const url = `http://127.0.0.1:${(door.address() as AddressInfo).port}`;
  project.provide("browserDoorUrl", url);
  project.provide("packedUrl", `${url}/packed`);
  return () => {
    door.closeAllConnections();
    door.close();
  };
}

/** Runs a script to its end, and answers what it said. */
async function runScript(name: string, ...args: string[]): Promise<string> {
  const script = fileURLToPath(new URL(`../../scripts/${name}`, import.meta.url));
  // As a user builds it: under the name of a test run, libraries would be made for developers.
  const { NODE_ENV: _, ...env } = process.env;
  const stdio: StdioOptions = ["ignore", "pipe", "inherit"];
  const child = spawn(process.execPath, [script, ...args], { env, stdio });
  let said = "";
  child.stdout?.on("data", (part: Buffer) => (said += part.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${name} failed: ${said}`);
  return said.trim();
}
