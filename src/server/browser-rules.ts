import { PawlError } from "../core/errors.ts";

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]"];

/** Refuses with `FORBIDDEN` a request for a name that is not this server's. */
export type CheckHost = (host: string) => void;

/**
 * Makes the check of the `Host` header: a page of somebody else's that had its name point to this
 * machine (DNS rebinding) would otherwise speak as a local user.
 */
export function createCheckHost(hosts: readonly string[]): CheckHost {
  const names = new Set([...LOOPBACK_NAMES, ...hosts.map((host) => nameOf(host.toLowerCase()))]);
  return (host) => {
    if (names.has(nameOf(host.toLowerCase()))) return;
    throw new PawlError(
      "FORBIDDEN",
      `This server does not answer for the host ${JSON.stringify(host)}. ` +
        `It answers for ${[...names].join(", ")}.`,
      { details: { host } },
    );
  };
}

function nameOf(host: string): string {
  return host.replace(/:\d*$/, "");
}

/**
 * Refuses with `FORBIDDEN` a change that a browser sends for a page of another site. Programs send
 * neither header; browsers always send one of them with a change.
 */
export function checkSite(
  site: string | undefined,
  origin: string | undefined,
  host: string,
): void {
  if (site === "same-origin" || site === "none") return;
  if (site === undefined && (origin === undefined || URL.parse(origin)?.host === host)) return;
  throw new PawlError(
    "FORBIDDEN",
    "A page of another site may not change anything here. Send the request from Pawl's own page " +
      "or from a program.",
    { details: { site: site ?? null, origin: origin ?? null } },
  );
}
