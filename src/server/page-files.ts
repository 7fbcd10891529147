import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

/** Where the built page lies, seen from `src/server` and from `dist/server` alike. */
export const PAGE_FOLDER = fileURLToPath(new URL("../../dist/ui/", import.meta.url));

/** Whether the page of this package was built: in a clone it may not have been yet. */
export function isPageBuilt(): boolean {
  return existsSync(join(PAGE_FOLDER, "index.html"));
}

/**
 * Allows the page its own files and its own server, and nothing else: no script and no style in the
 * document itself, no frame around it, no form that leads elsewhere.
 */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
  "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** What is sent of a file, in each encoding. */
type PageFile = {
  type: string;
  etag: string;
  /** Whether the name changes with the content, so that it can be kept for ever. */
  isHashed: boolean;
  bodies: { plain: Buffer; gzip: Promise<Buffer> | null; br: Promise<Buffer> | null };
};

/** The files of the page, read once. */
export class PageFiles {
  readonly #folder: string;
  #files: ReadonlyMap<string, PageFile> | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Whether there is a page. */
  get areThere(): boolean {
    return this.#all().size > 0;
  }

  /** The answer for a path: a file, or the document for every other path; null without a page. */
  async answer(
    path: string,
    header: (name: string) => string | undefined,
  ): Promise<Response | null> {
    const files = this.#all();
    // A key or a name in an address may look like that of a file, but only a person asks for HTML.
    const isVisit = extname(path) === "" || (header("accept") ?? "").includes("text/html");
    const file = files.get(path) ?? (isVisit ? files.get("/index.html") : undefined);
    if (file === undefined) return null;
    const headers: Record<string, string> = {
      "content-type": file.type,
      "cache-control": file.isHashed ? "public, max-age=31536000, immutable" : "no-cache",
      "content-security-policy": PAGE_POLICY,
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      etag: file.etag,
      vary: "accept-encoding",
    };
    // A proxy may have made the tag a weak one, and a browser may name several.
    if (header("if-none-match")?.includes(file.etag) === true) {
      return new Response(null, { status: 304, headers });
    }
    const { body, encoding } = await encoded(file, header("accept-encoding") ?? "");
    if (encoding !== null) headers["content-encoding"] = encoding;
    return new Response(new Uint8Array(body), { headers });
  }

  #all(): ReadonlyMap<string, PageFile> {
    // A page that is built after the server has started is found at the next look.
    if (this.#files === null || this.#files.size === 0) this.#files = readFiles(this.#folder);
    return this.#files;
  }
}

function readFiles(folder: string): Map<string, PageFile> {
  const files = new Map<string, PageFile>();
  for (const name of namesIn(folder)) {
    const plain = readFileSync(join(folder, name));
    const path = `/${name.replaceAll("\\", "/")}`;
    files.set(path, {
      type: CONTENT_TYPES[extname(name)] ?? "application/octet-stream",
      etag: `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`,
      isHashed: path.startsWith("/assets/"),
      bodies: { plain, gzip: null, br: null },
    });
  }
  return files;
}

function namesIn(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) =>
        join(entry.parentPath, entry.name)
          .slice(folder.length)
          .replace(/^[\\/]/, ""),
      );
  } catch {
    return [];
  }
}

const compress = { gzip: promisify(gzip), br: promisify(brotliCompress) };

/** Better than the default by a tenth, and still only some milliseconds for the largest file. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };

/** A file as small as the client understands; each encoding is made once. */
async function encoded(
  { bodies }: PageFile,
  accepted: string,
): Promise<{ body: Buffer; encoding: string | null }> {
  if (isAccepted("br", accepted)) {
    bodies.br ??= compress.br(bodies.plain, BROTLI);
    return { body: await bodies.br, encoding: "br" };
  }
  if (isAccepted("gzip", accepted)) {
    bodies.gzip ??= compress.gzip(bodies.plain);
    return { body: await bodies.gzip, encoding: "gzip" };
  }
  return { body: bodies.plain, encoding: null };
}

/** Whether an `Accept-Encoding` header names an encoding, and not with a weight of zero. */
function isAccepted(encoding: string, accepted: string): boolean {
  return accepted.split(",").some((part) => {
    const [name = "", weight = ""] = part.split(";", 2).map((text) => text.trim());
    return name.toLowerCase() === encoding && !/^q=0(?:\.0*)?$/i.test(weight);
  });
}
