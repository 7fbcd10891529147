import { execFile } from "node:child_process";
import { createReadStream, existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { inject } from "vitest";
import { ROOT } from "./example-project.ts";

/*
 * A registry on this machine, as npm and pnpm ask one: it has the tarballs that it is given, and of all
 * else what is installed in the clone, in that version. So nothing has to be published, and nobody
 * else's release can break a test.
 */

/** A registry that runs. */
export interface NpmRegistry {
  readonly url: string;
  close(): void;
}

type Manifest = { name: string; version: string; dist?: object; [field: string]: unknown };
type Locked = { version: string; integrity?: string; [field: string]: unknown };
/** A version of a package: what its manifest says, and how its tarball comes to be. */
type Served = { manifest: Manifest; tarball: () => Promise<string> };

const run = promisify(execFile);
const CACHE = join(ROOT, "node_modules", ".cache", "pawl-registry");

/** The path of the tarball that is published. */
export async function packedPackage(): Promise<string> {
  const response = await fetch(inject("packedUrl"));
  const said = await response.text();
  if (!response.ok) throw new Error(said);
  return said;
}

/** Serves the tarballs, and what is installed in the clone. */
export async function startRegistry(tarballs: readonly string[]): Promise<NpmRegistry> {
  const served = installedPackages();
  for (const tarball of tarballs) {
    const { stdout } = await run("tar", ["xzOf", tarball, "package/package.json"]);
    const manifest = JSON.parse(stdout) as Manifest;
    served.set(manifest.name, [{ manifest, tarball: () => Promise.resolve(tarball) }]);
  }
  let url = "";

  /** What npm calls a packument: all versions of a package. */
  function packument(name: string): object | null {
    const versions = served.get(name);
    if (versions === undefined) return null;
    const documents = versions.map(({ manifest }) => {
      const tarball = `${url}/-/${encodeURIComponent(name)}/${manifest.version}.tgz`;
      return [manifest.version, { ...manifest, dist: { ...manifest.dist, tarball } }] as const;
    });
    const latest = versions.at(-1)?.manifest.version;
    return { name, "dist-tags": { latest }, versions: Object.fromEntries(documents) };
  }

  const server = createServer((request, response) => {
    const [path = ""] = (request.url ?? "").slice(1).split("?");
    const [, name, version] = /^-\/([^/]+)\/(.+)\.tgz$/.exec(path) ?? [];
    const notFound = (): void => void response.writeHead(404).end("{}");
    if (name === undefined) {
      const found = packument(decodeURIComponent(path));
      if (found === null) notFound();
      else
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(found));
      return;
    }
    const versions = served.get(decodeURIComponent(name));
    const wanted = versions?.find(({ manifest }) => manifest.version === version);
    if (wanted === undefined) {
      notFound();
      return;
    }
    wanted.tarball().then(
      (file) => createReadStream(file).pipe(response),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  return {
    url,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** What is installed in the clone, and what is not only because it is for other machines. */
function installedPackages(): Map<string, Served[]> {
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Record<string, Locked>;
  };
  const served = new Map<string, Served[]>();
  for (const [path, locked] of Object.entries(packages)) {
    const [, name] = /(?:^|.*\/)node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(path) ?? [];
    if (name === undefined) continue;
    const folder = join(ROOT, path);
    const file = join(folder, "package.json");
    const manifest = existsSync(file)
      ? (JSON.parse(readFileSync(file, "utf8")) as Manifest)
      : // With its digest, so that nobody loads it to find that.
        { ...locked, name, dist: { integrity: locked.integrity } };
    const all = served.get(name) ?? [];
    if (all.some((each) => each.manifest.version === manifest.version)) continue;
    let packed: Promise<string> | null = null;
    const tarball = (): Promise<string> =>
      (packed ??= packInstalled(folder, `${name}-${manifest.version}`));
    // The one that is not below another package is the newest.
    const isTop = path === `node_modules/${name}`;
    served.set(name, isTop ? [...all, { manifest, tarball }] : [{ manifest, tarball }, ...all]);
  }
  return served;
}

/** The tarball of a package as it is installed; a version never changes, so it is kept. */
async function packInstalled(folder: string, name: string): Promise<string> {
  const file = join(CACHE, `${name.replaceAll("/", "+")}.tgz`);
  if (existsSync(file)) return file;
  mkdirSync(CACHE, { recursive: true });
  const unfinished = `${file}.${process.pid}`;
  // Whatever its first folder is called, that is left out where it is unpacked.
  const args = ["-C", dirname(folder), "--exclude", "node_modules", basename(folder)];
  await run("tar", ["czf", unfinished, ...args]);
  renameSync(unfinished, file);
  return file;
}
