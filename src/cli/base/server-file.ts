import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { App } from "../../server/http/app.ts";
import { isPrivate } from "../../store/make-directory.ts";

/** Where a server of a project is. */
export type ServerAddress = { url: string; pid: number; started_at: string };

/** What a server says about itself in the data directory of its project. */
const ServerFile = z.object({
  url: z.string(),
  pid: z.int().positive(),
  started_at: z.string(),
  /** What the server proves to know before anybody sends it a token. */
  secret: z.string().regex(/^[0-9a-f]{64}$/),
  /** The folder that it was written in, by its number on its disk: a copy of it is no proof. */
  place: z.string(),
});
type ServerFile = z.infer<typeof ServerFile>;

/** How long a server may take to say that it lives: on a busy machine, longer than one would think. */
const LIVEZ_TIMEOUT_MS = 15_000;

const CHALLENGE = "pawl-challenge";
const PROOF = "pawl-proof";

/** A secret by which the commands of a project know its server. */
export function newServerSecret(): string {
  return randomBytes(32).toString("hex");
}

/** Says where the server is, for the commands of the same project and the same user. */
export function writeServerFile(
  dataDirectory: string,
  { url, pid, started_at }: ServerAddress,
  secret: string,
): void {
  const file: ServerFile = { url, pid, started_at, secret, place: placeOf(dataDirectory) };
  const path = pathOf(dataDirectory);
  // Renamed into place, so that nobody reads half of it.
  writeFileSync(`${path}.${pid}`, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.${pid}`, path);
}

/** Takes back what `writeServerFile` said, unless another server has said something since. */
export function removeServerFile(dataDirectory: string, pid: number): void {
  if (readServerFile(dataDirectory)?.pid === pid) rmSync(pathOf(dataDirectory), { force: true });
}

/**
 * What the last server of the project said, which may be gone; null when none did. What this user
 * did not write on this very disk says nothing: it may have come with a repository or an archive,
 * to lead commands and their token to somebody else's server.
 */
export function readServerFile(dataDirectory: string): ServerFile | null {
  try {
    const path = pathOf(dataDirectory);
    if (!isPrivate(path)) return null;
    const file = ServerFile.parse(JSON.parse(readFileSync(path, "utf8")));
    return file.place === placeOf(dataDirectory) ? file : null;
  } catch {
    return null;
  }
}

/** The server that runs for the project now, started by this user, or null. */
export async function runningServer(dataDirectory: string): Promise<ServerAddress | null> {
  const server = readServerFile(dataDirectory);
  // The address may belong to another program by now; the process says whose it is.
  if (server === null || !isRunning(server.pid)) return null;
  const { url, pid, started_at, secret } = server;
  return (await hasSecret(url, secret)) ? { url, pid, started_at } : null;
}

/** An app that proves to know the secret, to whoever asks it whether it lives. */
export function provingApp(app: App, secret: string): App {
  return {
    ...app,
    async fetch(request, environment) {
      const response = await app.fetch(request, environment);
      const challenge = request.url.endsWith("/livez") ? request.headers.get(CHALLENGE) : null;
      if (challenge !== null && response.ok) {
        response.headers.set(PROOF, proofOf(secret, challenge).toString("hex"));
      }
      return response;
    },
  };
}

async function hasSecret(url: string, secret: string): Promise<boolean> {
  const challenge = randomBytes(16).toString("hex");
  try {
    const answer = await fetch(`${url}/livez`, {
      headers: { [CHALLENGE]: challenge },
      redirect: "manual",
      signal: AbortSignal.timeout(LIVEZ_TIMEOUT_MS),
    });
    const proof = Buffer.from(answer.headers.get(PROOF) ?? "", "hex");
    const expected = proofOf(secret, challenge);
    return answer.ok && proof.length === expected.length && timingSafeEqual(proof, expected);
  } catch {
    return false;
  }
}

function proofOf(secret: string, challenge: string): Buffer {
  return createHmac("sha256", secret).update(`pawl-server:${challenge}`).digest();
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

function placeOf(dataDirectory: string): string {
  const { dev, ino } = statSync(dataDirectory, { bigint: true });
  return `${dev}:${ino}`;
}

function pathOf(dataDirectory: string): string {
  return join(dataDirectory, "server.json");
}
