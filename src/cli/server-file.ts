import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

/** What a server says about itself in the data directory of its project. */
export const ServerFile = z.object({
  url: z.string(),
  pid: z.int().positive(),
  started_at: z.string(),
});
export type ServerFile = z.infer<typeof ServerFile>;

/** How long a server may take to say that it lives. */
const LIVEZ_TIMEOUT_MS = 2_000;

/** Says where the server is, for the commands of the same project. */
export function writeServerFile(dataDirectory: string, server: ServerFile): void {
  const path = pathOf(dataDirectory);
  // Renamed into place, so that nobody reads half of it.
  writeFileSync(`${path}.${server.pid}`, `${JSON.stringify(server, null, 2)}\n`);
  renameSync(`${path}.${server.pid}`, path);
}

/** Takes back what `writeServerFile` said, unless another server has said something since. */
export function removeServerFile(dataDirectory: string, pid: number): void {
  if (readServerFile(dataDirectory)?.pid === pid) rmSync(pathOf(dataDirectory), { force: true });
}

/** What the last server of the project said, which may be gone; null when none did. */
export function readServerFile(dataDirectory: string): ServerFile | null {
  try {
    return ServerFile.parse(JSON.parse(readFileSync(pathOf(dataDirectory), "utf8")));
  } catch {
    return null;
  }
}

/** The server that runs for the project now, or null. */
export async function runningServer(dataDirectory: string): Promise<ServerFile | null> {
  const server = readServerFile(dataDirectory);
  // The address may belong to another project's server by now; the process says whose it is.
  if (server === null || !isRunning(server.pid)) return null;
  return (await isLive(server.url)) ? server : null;
}

async function isLive(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/livez`, { signal: AbortSignal.timeout(LIVEZ_TIMEOUT_MS) });
    return answer.ok;
  } catch {
    return false;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Not allowed to signal it, so it is there.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function pathOf(dataDirectory: string): string {
  return join(dataDirectory, "server.json");
}
