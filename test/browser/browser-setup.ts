import { spawn } from "node:child_process";
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

const BUILD = fileURLToPath(new URL("../../scripts/build-page.ts", import.meta.url));
let prepared: Promise<string> | null = null;

/** Has the page built and a Chromium at hand for the tests that want them, once for the whole run. */
export async function setup(project: TestProject): Promise<() => void> {
  const door = createServer((request, response) => {
    if (request.url === "/empty") {
      response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>");
      return;
    }
    prepared ??= prepare();
    prepared.then(
      (path) => response.end(path),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  door.listen(0, "127.0.0.1");
  await once(door, "listening");
  project.provide("browserDoorUrl", `http://127.0.0.1:${(door.address() as AddressInfo).port}`);
  return () => {
    door.closeAllConnections();
    door.close();
  };
}

async function prepare(): Promise<string> {
  // As a user builds it: under the name of a test run, libraries would be made for developers.
  const { NODE_ENV: _, ...env } = process.env;
  const child = spawn(process.execPath, [BUILD], { env, stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error("The page cannot be built.");
  return chromiumPath();
}
