import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../client/client.ts";
import { PawlError } from "../core/errors.ts";
import type { Cli } from "./cli.ts";
import type { Api } from "./reach-api.ts";

/** Short work is over soon; long work need not be looked at as often. */
const POLL_MS_FIRST = 50;
const POLL_MS_MAX = 500;

/**
 * Looks again and again until what was seen is settled. When the server of another command goes,
 * this one takes over. Rejects when the command is interrupted.
 */
export async function watchApi<Seen>(
  cli: Cli,
  api: Api,
  look: (client: Client) => Promise<Seen>,
  isSettled: (seen: Seen) => boolean,
): Promise<Seen> {
  for (let pollMs = POLL_MS_FIRST; ; pollMs = Math.min(POLL_MS_MAX, pollMs * 1.2)) {
    const seen = await lookOverLoss(api, look);
    if (isSettled(seen)) return seen;
    await sleep(pollMs, undefined, { signal: cli.signal });
  }
}

async function lookOverLoss<Seen>(
  api: Api,
  look: (client: Client) => Promise<Seen>,
): Promise<Seen> {
  try {
    return await look(api.client);
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "SERVER_UNREACHABLE") throw error;
    await api.reopen();
    return look(api.client);
  }
}
