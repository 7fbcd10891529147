import { PawlError } from "../kernel/errors.ts";
import { type Instant, msBetween } from "../kernel/instant.ts";
import type { Store, TokenRow, WorkspaceId } from "../store/store.ts";
import { type Actor, holderOf } from "../work/envelope.ts";
import type { ClaimFound, ClaimRequest } from "../work/run/protocol.ts";
import type { Environment } from "./config.ts";

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

  /** Nothing was ready for this claim, nor for those that ask for the same: they are not tried by themselves. */
  wasEmpty({ wish }: WaitingClaim): void {
    // Of claims that have gone nothing has to be known: who asks again is tried again.
    if (this.#nothingFor.size >= WISHES_MAX) this.#nothingFor.clear();
    this.#nothingFor.add(wish);
    for (const claim of this.unserved()) {
      if (claim.wish !== wish) continue;
      claim.isTried = true;
      if (claim.isLate) claim.resolve({ groups: [] });
    }
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
  "TasksRequeued",
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

/** A worker that was not heard of for this long is taken to be gone. */
const HEARD_KEPT_MS = 60_000;
/** Most characters of names that are remembered for one token: tens of thousands of assets. */
export const HELD_LENGTH_MAX = 4_000_000;
/** The same for all tokens together. */
export const ALL_LENGTH_MAX = 32_000_000;
/** What a name costs besides its characters. */
const ENTRY_LENGTH = 50;

/** The names of one token, the one heard of last at the end. */
type Heard = { names: Map<string, Instant>; length: number };

/**
 * What workers say they can do, and when they said it last. Names are whatever a worker sends, so they
 * are forgotten after a minute, and before that when there are too many: the oldest of the same token
 * first. Forgetting costs a hint that nobody can run something, never work.
 */
export class HeardNames {
  readonly #byHolder = new Map<string, Heard>();
  #length = 0;

  /** Hears these names from whoever has this token. */
  hear(holder: string, names: Iterable<string>, now: Instant): void {
    const heard = this.#byHolder.get(holder) ?? { names: new Map<string, Instant>(), length: 0 };
    this.#byHolder.delete(holder);
    this.#byHolder.set(holder, heard);
    for (const name of names) {
      if (heard.names.delete(name)) this.#count(heard, name, -1);
      heard.names.set(name, now);
      this.#count(heard, name, 1);
      if (heard.length > HELD_LENGTH_MAX) this.#forgetOldest(heard);
    }
    for (const other of this.#byHolder.values()) this.#forgetSilent(other, now);
    // Others share the rest: the one that has been silent for longest gives way.
    while (this.#length > ALL_LENGTH_MAX) this.#drop();
    for (const [key, { names: left }] of this.#byHolder) {
      if (left.size === 0) this.#byHolder.delete(key);
    }
  }

  /** The names heard within the last minute, and when last. */
  all(): Map<string, Instant> {
    const all = new Map<string, Instant>();
    for (const { names } of this.#byHolder.values()) {
      for (const [name, at] of names) if (at >= (all.get(name) ?? at)) all.set(name, at);
    }
    return all;
  }

  #count(heard: Heard, name: string, by: 1 | -1): void {
    const length = by * (name.length + ENTRY_LENGTH);
    heard.length += length;
    this.#length += length;
  }

  #forgetOldest(heard: Heard): void {
    const [oldest] = heard.names.keys();
    if (oldest === undefined) return;
    heard.names.delete(oldest);
    this.#count(heard, oldest, -1);
  }

  #forgetSilent(heard: Heard, now: Instant): void {
    for (const [name, at] of heard.names) {
      if (msBetween(at, now) <= HEARD_KEPT_MS) return;
      heard.names.delete(name);
      this.#count(heard, name, -1);
    }
  }

  #drop(): void {
    const [first] = this.#byHolder;
    if (first === undefined) return;
    const [holder, { length }] = first;
    this.#byHolder.delete(holder);
    this.#length -= length;
  }
}
