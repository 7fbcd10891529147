import { type Claimed, claimTasks } from "../controllers/claim-tasks.ts";
import { addMs } from "../core/instant.ts";
import type { ClaimFound } from "../core/protocol.ts";
import { type ClaimQueue, tokenEnded, type WaitingClaim } from "./claim-queue.ts";
import type { Commit } from "./commit.ts";
import { STAGE_PARTS } from "./commit-bounds.ts";
import { type Afterwards, isStoreFailure, reasonOf } from "./commit-loop.ts";
import type { Environment } from "./environment.ts";
import { workerCause } from "./report-in.ts";

/** Gives ready tasks to the claims that wait, as far as one commit goes. */
export async function serveClaims(
  commit: Commit,
  claims: ClaimQueue,
  leaseMs: number,
  environment: Environment,
  afterwards: Afterwards,
): Promise<void> {
  const part = commit.part(STAGE_PARTS.claims);
  for (const claim of claims.worthTrying()) {
    if (part.isFull()) return;
    const { request, actor } = claim;
    if (!(await commit.isTokenGood(actor))) {
      claim.refuse(tokenEnded());
      continue;
    }
    const result = await decideClaim(commit, claims, claim, environment);
    if (result.tasks.length === 0) {
      // An empty answer asks whether anybody is there: who is, claims again, and gets the task then.
      if (result.isUnheard || result.suspects_wait === true) claim.resolve(foundOf(result));
      else claims.wasEmpty(claim);
      continue;
    }
    claim.isServed = true;
    commit.leasesGranted.push({
      lease_id: claim.leaseKey,
      worker_id: request.worker_id,
      granted_at: commit.now,
      expires_at: addMs(commit.now, leaseMs),
      tasks: result.tasks,
    });
    if (result.alone_ms !== undefined) claims.endTurn(claim);
    afterwards.push(() => claim.resolve(foundOf(result)));
  }
}

function foundOf(claimed: Claimed): ClaimFound {
  const { tasks: _tasks, isUnheard: _isUnheard, ...found } = claimed;
  return found;
}

/** A claim that cannot be decided gets nothing, and harms nobody else. */
async function decideClaim(
  commit: Commit,
  claims: ClaimQueue,
  claim: WaitingClaim,
  environment: Environment,
): Promise<Claimed> {
  try {
    const { request, actor, heardPos } = claim;
    const drainedMs = (suspects: number): number | null => claims.drainedMs(claim, suspects);
    const decide = claimTasks(request, heardPos, drainedMs);
    return (await commit.decide(decide, workerCause(actor))).result;
  } catch (error) {
    if (isStoreFailure(error)) throw error;
    environment.warn("a claim failed", { reason: reasonOf(error) });
    return { groups: [], tasks: [], isUnheard: false };
  }
}
