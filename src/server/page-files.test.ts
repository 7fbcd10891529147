import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PageFiles } from "./page-files.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pawl-page-files-"));
  mkdirSync(join(folder, "assets"));
  writeFileSync(join(folder, "index.html"), "<!doctype html>page");
  writeFileSync(join(folder, "assets", "index-abc.js"), "run()".repeat(100));
});

afterEach(() => rmSync(folder, { recursive: true }));

const asked = (headers: Record<string, string> = {}) => {
  return (name: string): string | undefined => headers[name];
};

describe("PageFiles", () => {
  test("answers the document for every place, and nothing for a file that is not there", async () => {
    const files = new PageFiles(folder);
    for (const path of ["/", "/backfills", "/runs/run_1/tasks/3"]) {
      const answer = await files.answer(path, asked());
      expect(await answer?.text()).toBe("<!doctype html>page");
      expect(answer?.headers.get("content-type")).toBe("text/html; charset=utf-8");
    }
    expect(await files.answer("/assets/none.js", asked())).toBeNull();
    expect(await files.answer("/assets/../../etc/passwd.txt", asked())).toBeNull();
  });

  test("answers the document for a place whose last name looks like a file's, to a browser", async () => {
    const files = new PageFiles(folder);
    const visit = asked({ accept: "text/html,application/xhtml+xml,*/*;q=0.8" });
    const answer = await files.answer("/assets/sales.orders", visit);
    expect(await answer?.text()).toBe("<!doctype html>page");
    const script = await files.answer("/assets/index-abc.js", visit);
    expect(script?.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
  });

  test("I73: allows no script and no style but the page's own files", async () => {
    const answer = await new PageFiles(folder).answer("/", asked());
    const policy = answer?.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("style-src 'self';");
    expect(policy).not.toContain("unsafe");
    expect(policy).toContain("frame-ancestors 'none'");
  });

  test("sends a file as small as the browser understands", async () => {
    const files = new PageFiles(folder);
    const body = async (encoding: string) => {
      const answer = await files.answer(
        "/assets/index-abc.js",
        asked({ "accept-encoding": encoding }),
      );
      const bytes = Buffer.from((await answer?.arrayBuffer()) ?? new ArrayBuffer(0));
      return { encoding: answer?.headers.get("content-encoding"), bytes };
    };
    const brotli = await body("gzip, deflate, br");
    expect(brotli.encoding).toBe("br");
    expect(brotliDecompressSync(brotli.bytes).toString()).toBe("run()".repeat(100));
    const gzip = await body("gzip");
    expect(gzip.encoding).toBe("gzip");
    expect(gunzipSync(gzip.bytes).toString()).toBe("run()".repeat(100));
    for (const none of ["", "br;q=0, gzip; q=0.0", "x-br"]) {
      expect(await body(none), none).toMatchObject({ encoding: null });
    }
    expect(await body("br;q=0, gzip;q=0.5")).toMatchObject({ encoding: "gzip" });
  });

  test("lets browsers keep what never changes, and ask whether the rest did", async () => {
    const files = new PageFiles(folder);
    const script = await files.answer("/assets/index-abc.js", asked());
    expect(script?.headers.get("cache-control")).toContain("immutable");
    const page = await files.answer("/", asked());
    expect(page?.headers.get("cache-control")).toBe("no-cache");
    const etag = page?.headers.get("etag") ?? "";
    for (const known of [etag, `W/${etag}`, `"older", ${etag}`]) {
      const again = await files.answer("/", asked({ "if-none-match": known }));
      expect(again?.status, known).toBe(304);
    }
  });

  test("finds a page that is built later", async () => {
    const later = join(folder, "later");
    const files = new PageFiles(later);
    expect(await files.answer("/", asked())).toBeNull();
    mkdirSync(later);
    writeFileSync(join(later, "index.html"), "built");
    expect(await (await files.answer("/", asked()))?.text()).toBe("built");
  });
});
