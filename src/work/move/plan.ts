import { PawlError } from "../../kernel/errors.ts";
import type { EventData, NewEvent } from "../events.ts";
import { MOVE_LANES_MAX } from "./events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { movingPairs, type ShardPair } from "./lanes.ts";
import { MovePlan } from "./spec.ts";
import type { Rows } from "../rows.ts";
import { type ShardsSpec, planFault } from "../shard/spec.ts";
import type { MoveChanged } from "./commands.ts";
import type { Decide } from "../decision.ts";
import { knownMoveSpec } from "./look-up.ts";
import { currentShards } from "../shard/look-up.ts";

/** A wish to move rows: by the name of a definition, or by a plan of its own. */
export type PlanMoveInput = { move: string } | { plan: MovePlan };

type Lane = EventData<"MovePlanned">["lanes"][number];

/** Plans a move: what goes where is known, how much it is gets surveyed; nothing is copied yet. */
export function planMove(input: PlanMoveInput, dryRun = false): Decide<MoveChanged> {
  return (rows, context) => {
    const { name, plan } = plannedBy(rows, input);
    const shards = currentShards(rows);
    const fault = planFault(plan, shards?.spec ?? null);
    if (fault !== null || shards === null) {
      throw new PawlError("INPUT_INVALID", `The plan ${fault ?? "needs shards."}`, {
        details: { move: name },
      });
    }
    const lanes = lanesOf(plan, shards.spec);
    const move_id = context.newId();
    const event: NewEvent = {
      type: "MovePlanned",
      idempotency_key: IDEMPOTENCY_KEYS.movePlan(move_id),
      data: {
        move_id,
        name,
        plan,
        dry_run: dryRun,
        spec_hash: shards.spec_hash,
        lanes,
        changed_by: context.principal,
      },
    };
    return { events: [event], result: { move_id, state: "PLANNED", state_version: 1 } };
  };
}

function plannedBy(rows: Rows, input: PlanMoveInput): { name: string | null; plan: MovePlan } {
  if ("plan" in input) return { name: null, plan: input.plan };
  const { kind: _, name, description: __, ...plan } = knownMoveSpec(rows, input.move);
  return { name, plan: MovePlan.parse(plan) };
}

/** What goes from where to where, table by table in the order of the shards. */
function lanesOf(plan: MovePlan, shards: ShardsSpec): Lane[] {
  const pairs = movingPairs(plan.from, plan.to);
  if (pairs.length === 0) {
    throw new PawlError(
      "INPUT_INVALID",
      "By both topologies every row is on the same shard: there is nothing to move. Say in `to` " +
        "where rows should be instead.",
    );
  }
  for (const pair of pairs) refuseEngines(pair, shards);
  const wanted = plan.tables === undefined ? null : new Set(plan.tables);
  const lanes = shards.tables.flatMap((table, order) =>
    wanted === null || wanted.has(table.table)
      ? pairs.map(({ from, to }): Lane => ({ table, order, from, to }))
      : [],
  );
  if (lanes.length <= MOVE_LANES_MAX) return lanes;
  throw new PawlError(
    "INPUT_INVALID",
    `The move would go along ${lanes.length} lanes (${pairs.length} pairs of shards in ` +
      `${lanes.length / pairs.length} tables); at most ${MOVE_LANES_MAX} are possible. Move some ` +
      "tables, or some shards, at a time.",
    { details: { lanes: lanes.length, lanes_max: MOVE_LANES_MAX } },
  );
}

function refuseEngines({ from, to }: ShardPair, { shards }: ShardsSpec): void {
  const engineOf = (name: string) => shards.find(({ shard }) => shard === name)?.engine;
  const [source, target] = [engineOf(from), engineOf(to)];
  if (source === target) return;
  throw new PawlError(
    "INPUT_INVALID",
    `${from} is kept in ${source} and ${to} in ${target}; rows move between shards of one engine ` +
      "only, so that they stay exactly what they are.",
    { details: { from, from_engine: source, to, to_engine: target } },
  );
}
