import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type App, createApp } from "../../src/server/http/app.ts";
import { type Api, startApi } from "./api-server.ts";

let api: Api;
let folder: string;

beforeAll(async () => {
  api = await startApi();
  folder = mkdtempSync(join(tmpdir(), "pawl-page-"));
  mkdirSync(join(folder, "built"));
  writeFileSync(join(folder, "built", "index.html"), "page");
});

afterAll(async () => {
  await api.close();
  rmSync(folder, { recursive: true });
});

function appWith(pageFolder: string): App {
  return createApp({
    engines: api.engines,
    store: api.store,
    auth: { required: false },
    log: { error: (fields) => api.logged.push(fields) },
    version: "0.0.0",
    pageFolder,
  });
}

const ask = async (app: App, method: string, path: string): Promise<Response> =>
  app.fetch(new Request(`http://localhost${path}`, { method }));

test("the page is answered to whoever asks for it, or only whether it is there", async () => {
  const app = appWith(join(folder, "built"));
  const shown = await ask(app, "GET", "/");
  expect(await shown.text()).toBe("page");
  const head = await ask(app, "HEAD", "/");
  expect(head.status).toBe(200);
  expect(head.headers.get("etag")).toBe(shown.headers.get("etag"));
  expect(await head.text()).toBe("");
  expect((await ask(app, "POST", "/")).status).toBe(404);
});

test("a file that the page does not have is not told as a page that is not built", async () => {
  const missing = async (app: App, path: string): Promise<string> => {
    const answer = await ask(app, "GET", path);
    expect(answer.status).toBe(404);
    return ((await answer.json()) as { detail: string }).detail;
  };
  const built = appWith(join(folder, "built"));
  expect(await missing(built, "/assets/index-of-another-version.js")).not.toContain("not built");
  const unbuilt = appWith(join(folder, "unbuilt"));
  expect(await missing(unbuilt, "/")).toContain("The page is not built");
  expect(await missing(unbuilt, "/assets/index.js")).toContain("The page is not built");
  expect(await missing(unbuilt, "/api/v1/nothing")).not.toContain("not built");
});
