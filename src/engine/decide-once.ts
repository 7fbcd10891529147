import type { Decide } from "../controllers/decision.ts";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { Answer } from "../store/store.ts";
import type { Accepted, Cause, Commit } from "./commit.ts";

/** A request that must have its effect once, and how its answer is kept. */
export type Idempotency<Result> = {
  scope: string;
  key: string;
  bodyHash: string;
  /** The answer to keep; null when a repeat is to be decided anew. */
  respond: (accepted: Accepted<Result>) => { status: number; answer: Json } | null;
};

/** A command that was recorded, now or, when `replayed` is there, by an earlier equal request. */
export type Submitted<Result> = Accepted<Result> & { replayed: Answer | null };

/**
 * Decides a command; with an idempotency key, only when no equal request was decided before. The
 * answer is stored with the effect, so that it is there exactly when the effect is.
 */
export async function decideOnce<Result>(
  commit: Commit,
  decide: Decide<Result>,
  cause: Cause,
  idempotency: Idempotency<Result> | undefined,
): Promise<Submitted<Result>> {
  if (idempotency === undefined) {
    return { ...(await commit.decide(decide, cause)), replayed: null };
  }
  const { scope, key, bodyHash } = idempotency;
  const known = await commit.answerTo(scope, key);
  if (known !== null) return replay(known, idempotency, commit);
  const accepted = await commit.decide(decide, cause);
  const answered = idempotency.respond(accepted);
  if (answered !== null) {
    commit.answers.set(`${scope}\u0000${key}`, {
      scope,
      key,
      body_hash: bodyHash,
      ...answered,
      stored_at: commit.now,
    });
  }
  return { ...accepted, replayed: null };
}

function replay<Result>(
  known: Answer,
  { key, bodyHash }: Idempotency<Result>,
  commit: Commit,
): Submitted<Result> {
  if (known.body_hash !== bodyHash) {
    throw new PawlError(
      "IDEMPOTENCY_KEY_REUSED",
      `The idempotency key ${JSON.stringify(key)} was used before with another request. ` +
        "Use a new key for a new request.",
      { details: { key } },
    );
  }
  const replayed = { event_ids: [], pos: commit.pos, at: known.stored_at, replayed: known };
  return replayed as unknown as Submitted<Result>;
}
