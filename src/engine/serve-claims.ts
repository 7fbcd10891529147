import { type Claimed, claimTasks } from "../controllers/claim-tasks.ts";
import { addMs } from "../core/instant.ts";
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
    const result = await decideClaim(commit, claim, environment);
    if (result.tasks.length === 0) {
      // An empty answer asks whether anybody is there: who is, claims again, and gets the task then.
      if (result.isUnheard) claim.resolve([]);
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
    afterwards.push(() => claim.resolve(result.groups));
  }
}

/** A claim that cannot be decided gets nothing, and harms nobody else. */
async function decideClaim(
  commit: Commit,
  { request, actor, heardPos }: WaitingClaim,
  environment: Environment,
): Promise<Claimed> {
  try {
    const cause = workerCause(actor);
    return (await commit.decide(claimTasks(request, heardPos), cause)).result;
  } catch (error) {
    if (isStoreFailure(error)) throw error;
    environment.warn("a claim failed", { reason: reasonOf(error) });
    return { groups: [], tasks: [], isUnheard: false };
  }
}
