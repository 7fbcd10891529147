import { PawlError } from "../kernel/errors.ts";
import { type Actor, holderOf } from "../work/envelope.ts";
import type { Instant } from "../kernel/instant.ts";
import type { ClaimFound, ClaimRequest } from "../work/run/protocol.ts";
import type { Store, TokenRow, WorkspaceId } from "../store/store.ts";
import type { Environment } from "./config.ts";
import { ALL_LENGTH_MAX, HELD_LENGTH_MAX } from "./probes/heard-names.ts";

/** The name of a lease in the store: workers make up their own, and cannot name each other's. */
export function leaseKeyOf(actor: Actor, leaseId: string): string {
  return `${holderOf(actor)}/${leaseId}`;
}

/** Whether a token is good at a time: it is there, was not revoked and has not expired. */
export function isGoodToken(
  token: Pick<TokenRow, "expires_at" | "revoked_at"> | null,
  now: Instant,
): boolean {
  if (token === null || token.revoked_at !== null) return false;
  return token.expires_at === null || token.expires_at > now;
}

/** Refuses with `UNAUTHORIZED` who began to wait with a token that has ended since. */
export async function checkToken(
  store: Pick<Store, "read" | "now">,
  ws: WorkspaceId,
  { token_id }: Actor,
): Promise<void> {
  if (token_id === null) return;
  const token = await store.read(ws, (reader) => reader.token(token_id));
  if (!isGoodToken(token, await store.now())) throw tokenEnded();
}

/** The refusal of what began with a token and outlives it. */
export function tokenEnded(): PawlError {
  return new PawlError(
    "UNAUTHORIZED",
    "The token that this began with has ended. Sign in again, or use a new one.",
  );
}

/** A worker that has not asked again for so long takes nothing more for no suspect. */
const TURN_MS = 15_000;

/** Most wishes that are remembered to have found nothing. */
const WISHES_MAX = 10_000;

/** The names that some claims wait with; whose they were first, how long, and how many wait. */
type Wish = {
  wish: string;
  holder: string;
  assets: string[];
  length: number;
  claims: number;
};

function tooManyNames(): PawlError {
  return new PawlError(
    "OVERLOADED",
    "Claims wait here with more names of assets than fit into memory. Let the workers of a project " +
      "ask for the same assets, or for fewer.",
    { details: { length_max: HELD_LENGTH_MAX } },
  );
}

/** A claim that waits for work. */
export type WaitingClaim = {
  readonly request: ClaimRequest;
  readonly actor: Actor;
  /** The name of its lease in the store. */
  readonly leaseKey: string;
  /** What it may get, as a hash of the names: claims of a fleet share one list of them. */
  readonly wish: string;
  /** Where the ledger ended when the worker was last heard of. */
  readonly heardPos: number;
  /** Ends the wait with what was found; nothing when the time is up. */
  resolve(found: ClaimFound): void;
  /** Ends the wait with a refusal. */
  refuse(error: unknown): void;
  /** Tasks for it are being committed: it may not give up now, or they would be nobody's. */
  isServed: boolean;
  /** Nothing was ready for it so far: before it was tried, it does not give up either. */
  isTried: boolean;
  /** Its time is up. */
  isLate: boolean;
};

/**
 * The claims that wait for work. A claim is tried when it comes and whenever something may have
 * become ready; in between it costs nothing, and never takes the workspace lock.
 */
export class ClaimQueue {
  readonly #environment: Environment;
  readonly #waiting = new Set<WaitingClaim>();
  readonly #unserve = new Map<WaitingClaim, () => void>();
  /** What was asked for when nothing was ready at the last look. */
  readonly #nothingFor = new Set<string>();
  /** The names that claims wait with, by wish. */
  readonly #wishes = new Map<string, Wish>();
  /** Workers that take nothing more until a suspect can run alone: since when, and when they last asked. */
  readonly #turns = new Map<string, { wish: string; since: number; at: number }>();

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Waits for tasks until the request's time is up or its caller goes away: then there are none. */
  wait(
    request: ClaimRequest,
    actor: Actor,
    heardPos: number,
    signal: AbortSignal | undefined,
  ): Promise<ClaimFound> {
    if (signal?.aborted === true) return Promise.resolve({ groups: [] });
    // The worker asks again under the same lease: nobody listens to the first any more.
    const leaseKey = leaseKeyOf(actor, request.lease_id);
    for (const other of this.#waiting) {
      if (other.leaseKey === leaseKey && !other.isServed) other.resolve({ groups: [] });
    }
    const { wish, assets } = this.#wishFor(request, actor);
    return new Promise((resolve, reject) => {
      const end = (): void => {
        if (this.#waiting.delete(claim)) this.#unwish(wish);
        this.#unserve.delete(claim);
        cancel();
        signal?.removeEventListener("abort", giveUp);
      };
      const claim: WaitingClaim = {
        request: { ...request, assets },
        actor,
        leaseKey,
        wish,
        heardPos,
        isServed: false,
        isTried: this.#nothingFor.has(wish),
        isLate: false,
        resolve: (found) => {
          end();
          resolve(found);
        },
        refuse: (error) => {
          end();
          reject(error);
        },
      };
      const giveUp = (): void => {
        claim.isLate = true;
        if (!claim.isServed) claim.resolve({ groups: [] });
      };
      this.#unserve.set(claim, () => {
        claim.isServed = false;
        if (claim.isLate) claim.resolve({ groups: [] });
      });
      const cancel = this.#environment.timer(request.wait_ms, () => {
        claim.isLate = true;
        if (claim.isTried) giveUp();
      });
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#waiting.add(claim);
    });
  }

  /** The names of a claim, kept once for all that have the same; `OVERLOADED` when there are too many. */
  #wishFor({ assets, backfill_slots, alone = true }: ClaimRequest, actor: Actor): Wish {
    // A claim that takes no backfills, or no suspects, says nothing about those that do.
    const kind = `${backfill_slots === 0 ? "urgent" : "any"}${alone ? "" : ", beside others"}`;
    const holder = holderOf(actor);
    const text = `${kind}\n${assets.join("\n")}`;
    const wish = this.#environment.hash.sha256(text);
    const known = this.#wishes.get(wish);
    if (known !== undefined) {
      known.claims++;
      return known;
    }
    const others = [...this.#wishes.values()];
    const lengthOf = (some: readonly Wish[]): number =>
      some.reduce((sum, { length }) => sum + length, text.length);
    const own = lengthOf(others.filter((other) => other.holder === holder));
    if (own > HELD_LENGTH_MAX || lengthOf(others) > ALL_LENGTH_MAX) throw tooManyNames();
    const made = { wish, holder, assets, length: text.length, claims: 1 };
    this.#wishes.set(wish, made);
    return made;
  }

  #unwish(wish: string): void {
    const known = this.#wishes.get(wish);
    if (known !== undefined && --known.claims === 0) this.#wishes.delete(wish);
  }

  /** Something may have become ready: every claim is worth a try again. */
  wake(): void {
    this.#nothingFor.clear();
  }

  /** Nothing was ready for this claim. */
  wasEmpty(claim: WaitingClaim): void {
    // Of claims that have gone nothing has to be known: who asks again is tried again.
    if (this.#nothingFor.size >= WISHES_MAX) this.#nothingFor.clear();
    this.#nothingFor.add(claim.wish);
    claim.isTried = true;
    if (claim.isLate) claim.resolve({ groups: [] });
  }

  /** Claims that are worth a try, oldest first; of those under one lease only the newest. */
  worthTrying(): WaitingClaim[] {
    const byLease = new Map<string, WaitingClaim>();
    for (const claim of this.#waiting) {
      if (!claim.isServed && !this.#nothingFor.has(claim.wish)) {
        byLease.set(claim.leaseKey, claim);
      }
    }
    return [...byLease.values()];
  }

  /**
   * For how long the worker of a claim has taken nothing more, because so many suspects wait to run
   * alone; null when others do that for them already.
   */
  drainedMs({ wish, actor, request }: WaitingClaim, suspects: number): number | null {
    const now = this.#environment.elapsedMs();
    const name = `${wish}/${leaseKeyOf(actor, request.worker_id)}`;
    for (const [other, { at }] of this.#turns) if (now - at > TURN_MS) this.#turns.delete(other);
    const own = this.#turns.get(name);
    const turns = [...this.#turns.values()].filter((turn) => turn.wish === wish);
    if (own === undefined && turns.length >= suspects) return null;
    const since = own?.since ?? now;
    this.#turns.set(name, { wish, since, at: now });
    return now - since;
  }

  /** The worker of a claim has got a suspect: the next one is another's turn, or begins anew. */
  endTurn({ wish, actor, request }: WaitingClaim): void {
    this.#turns.delete(`${wish}/${leaseKeyOf(actor, request.worker_id)}`);
  }

  /** The commit failed: no claim was served. */
  unserve(): void {
    for (const undo of this.#unserve.values()) undo();
  }

  /** These workers were not heard of in time: whoever waits for them is frozen, or asks again. */
  dismiss(workerIds: ReadonlySet<string>): void {
    for (const claim of this.unserved()) {
      if (workerIds.has(claim.request.worker_id)) claim.resolve({ groups: [] });
    }
  }

  /** Claims that may still give up. */
  unserved(): WaitingClaim[] {
    return [...this.#waiting].filter((claim) => !claim.isServed);
  }
}

/** Events after which a claim that found nothing may find something. */
const FILLING = new Set([
  "RunRequested",
  "TasksFinished",
  "TaskLeaseExpired",
  "DefinitionsPublished",
  // What keeps runs of a sync from being taken: its limit, its state and the head of its source.
  "SyncRetuned",
  "SyncStateChanged",
  "SyncSegmentsReopened",
  "SyncHeadMoved",
]);

/** Whether a claim that found nothing may find something after the event. */
export function mayFillClaims({ type }: { type: string }): boolean {
  return FILLING.has(type);
}
