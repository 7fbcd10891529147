import { PawlError } from "../../kernel/errors.ts";
import type { Caller } from "./authenticate.ts";

/** How much the server takes on at once. */
export type Limits = {
  /** Requests being carried out; those of workers, and those that wait, are counted apart. */
  requests: number;
  /** Messages of workers being carried out: a room of their own, which nobody else fills. */
  workerRequests: number;
  /** Messages to sensors being recorded. */
  pushes: number;
  /** Streams of events, for each token and for each workspace. */
  streamsPerToken: number;
  streams: number;
  /** Claims that wait for work, for each workspace; one token gets four fifths of them. */
  waitingClaims: number;
  /** Reads and evaluations that wait for something to happen, for each token and each workspace. */
  waitsPerToken: number;
  waits: number;
  /** Bodies on their way in, and bytes of them: from those with a token, and from all others. */
  bodies: number;
  bodyBytes: number;
  strangerBodies: number;
  strangerBytes: number;
};

/** Limits that fit one process on one core. */
export const DEFAULT_LIMITS: Limits = {
  requests: 1_000,
  workerRequests: 1_000,
  pushes: 1_000,
  streamsPerToken: 20,
  streams: 400,
  waitingClaims: 500,
  waitsPerToken: 100,
  waits: 400,
  bodies: 1_000,
  bodyBytes: 268_435_456,
  strangerBodies: 500,
  strangerBytes: 67_108_864,
};

/** What a limit counts, as a refusal names it. */
export type AdmissionPlace = { name: string; limit: number; what: string; status: 429 | 503 };

/** Counts what is under way under a name and turns away what is too much. */
export class Admission {
  readonly #counts = new Map<string, number>();

  /** Takes a place, or throws `OVERLOADED`; the function that it answers gives the place back. */
  enter(name: string, limit: number, what: string, status: 429 | 503): () => void {
    return this.enterAll([{ name, limit, what, status }]);
  }

  /** Takes all of the places or none; `OVERLOADED` names the first that is full. */
  enterAll(places: readonly AdmissionPlace[]): () => void {
    for (const { name, limit, what, status } of places) {
      const count = this.#counts.get(name) ?? 0;
      if (count < limit) continue;
      throw new PawlError(
        "OVERLOADED",
        `There are ${count} ${what} already, as many as there may be. Try again in a moment.`,
        { details: { limit, status } },
      );
    }
    for (const { name } of places) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      for (const { name } of places) this.#giveUp(name);
    };
  }

  #giveUp(name: string): void {
    const left = (this.#counts.get(name) ?? 1) - 1;
    if (left === 0) this.#counts.delete(name);
    else this.#counts.set(name, left);
  }
}

/** What says how much of a server one caller may have. */
export type Shared = { readonly limits: Limits; readonly engines: readonly unknown[] };

/**
 * The places of a request while it is carried out. Of a room that several share, one workspace gets
 * three quarters and one token half, so that nobody can keep all others out.
 */
export function workPlaces(
  { limits, engines }: Shared,
  caller: Caller,
  kind: "requests" | "workerRequests" | "pushes",
): AdmissionPlace[] {
  const limit = limits[kind];
  const { ws, actor } = caller;
  const places: AdmissionPlace[] = [{ name: kind, limit, what: "requests under way", status: 503 }];
  if (engines.length > 1) {
    const what = "requests of this workspace under way";
    const share = Math.max(1, Math.floor((limit * 3) / 4));
    places.push({ name: `${kind}:${ws}`, limit: share, what, status: 429 });
  }
  if (actor.token_id !== null) {
    const what = "requests with this token under way";
    const share = Math.max(1, Math.floor(limit / 2));
    places.push({ name: `${kind}:${ws}:${actor.token_id}`, limit: share, what, status: 429 });
  }
  return places;
}

/** The places of what waits, or goes on: so many for a token, so many for a workspace. */
export function lastingPlaces(
  { limits }: Pick<Shared, "limits">,
  { ws, actor }: Caller,
  kind: "streams" | "waits" | "claims",
): AdmissionPlace[] {
  const { what, limit, perToken } = {
    streams: {
      what: "streams of events",
      limit: limits.streams,
      perToken: limits.streamsPerToken,
    },
    waits: { what: "requests that wait", limit: limits.waits, perToken: limits.waitsPerToken },
    claims: {
      what: "claims waiting for work",
      limit: limits.waitingClaims,
      perToken: Math.max(1, Math.floor((limits.waitingClaims * 4) / 5)),
    },
  }[kind];
  const token = `${kind}:${ws}:${actor.token_id ?? ""}`;
  return [
    { name: token, limit: perToken, what: `${what} with this token`, status: 429 },
    { name: `${kind}:${ws}`, limit, what: `${what} in this workspace`, status: 429 },
  ];
}
