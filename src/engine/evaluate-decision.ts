import { type Context, type Decide, DECISION_ROOM } from "../controllers/decision.ts";
import { type Actor, holderOf } from "../core/events/envelope.ts";
import { epochMsOf } from "../core/instant.ts";
import type { Tenant } from "../core/keys.ts";
import { RowsMissing, WorkingSet } from "../core/rows/working-set.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import { loadMissing } from "./commit.ts";
import type { Environment } from "./environment.ts";

/** Runs a decision on a snapshot and records nothing; answers also the position it was read at. */
export async function evaluateDecision<Result>(
  store: Store,
  ws: WorkspaceId,
  tenant: Tenant,
  environment: Environment,
  decide: Decide<Result>,
  actor: Actor,
): Promise<{ result: Result; pos: number }> {
  const now = await store.now();
  return store.read(ws, async (reader) => {
    const { pos } = await reader.head();
    const set = new WorkingSet();
    const context: Context = {
      now,
      nextPos: pos + 1,
      hash: environment.hash,
      tenant,
      zoneDatabase: environment.zoneDatabase,
      principal: actor.principal,
      holder: holderOf(actor),
      room: DECISION_ROOM,
      random: () => environment.random(),
      newId: () => environment.newId(epochMsOf(now)),
    };
    for (;;) {
      try {
        return { result: decide(set.rows, context).result, pos };
      } catch (error) {
        if (!(error instanceof RowsMissing)) throw error;
        await loadMissing(set, reader, error);
      }
    }
  });
}
