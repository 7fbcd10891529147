import { PawlError } from "../../kernel/errors.ts";
import type { Condition } from "../../kernel/table.ts";
import {
  type Commanded,
  type CommandTable,
  checkLegal,
  commandsAbout,
  type Expecting,
  type Subject,
} from "../command.ts";
import { DECISION_EVENTS_MAX, type Decide } from "../decision.ts";
import type { EventData, NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { currentShards } from "../shard/look-up.ts";
import { planFault, type ShardsSpec } from "../shard/spec.ts";
import { MOVE_LANES_MAX } from "./events.ts";
import { movingPairs, type ShardPair } from "./lanes.ts";
import {
  knownMove,
  knownMoveSegment,
  knownMoveSpec,
  moveSegmentChanged,
  moveStateChanged,
  stopMoveRuns,
} from "./look-up.ts";
import { refuseMoveOverlaps } from "./overlaps.ts";
import type { MoveRow, MoveSegmentRow, MoveSegmentState, MoveState } from "./rows.ts";
import { MOVE_RULES, MOVE_SEGMENT_RULES, type MoveFacts } from "./rules.ts";
import { MovePlan } from "./spec.ts";

/** A command about one move, by its id or its name; the version, when given, must be current. */
export type MoveCommand = Expecting & { move: string; reason?: string | undefined };

/** A command about one segment of a move. */
export type MoveSegmentCommand = MoveCommand & { segment_index: number };

/** Where a move stands after a command. */
export type MoveChanged = { move_id: string; state: MoveState; state_version: number };

const MOVE: Commanded<MoveRow, MoveState, MoveFacts, { move: string }> = {
  title: ({ move_id }) => `Move ${move_id}`,
  stateOf: ({ state }) => state,
  details: ({ state, state_version }) => ({ state, state_version }),
  known: (rows, { move }) => knownMove(rows, move),
  factsOf: (row) => ({ ...row, keep_source: row.plan.keep_source }),
};

const SEGMENT: Subject<MoveSegmentRow, MoveSegmentState> = {
  title: ({ segment_index, move_id }) => `Segment ${segment_index} of move ${move_id}`,
  stateOf: ({ state }) => state,
  details: ({ segment_index, state }) => ({ segment_index, state }),
};

const command = commandsAbout(MOVE);

/** Where a move stands after so many changes of its version. */
function moveChanged(move: MoveRow, state: MoveState, versions: number): MoveChanged {
  return { move_id: move.move_id, state, state_version: move.state_version + versions };
}

function turned(
  move: MoveRow,
  state: MoveState,
  { reason }: MoveCommand,
  principal: string,
  stopped: readonly NewEvent[] = [],
) {
  const event = moveStateChanged(move, state, { changedBy: principal, reason });
  return { events: [event, ...stopped], result: moveChanged(move, state, 1) };
}

/** The segment of a command; refuses what makes no sense now. */
function commandedSegment(
  rows: Rows,
  move: MoveRow,
  index: number,
  name: keyof typeof MOVE_SEGMENT_RULES,
): MoveSegmentRow {
  const segment = knownMoveSegment(rows, move, index);
  const facts = { ...segment, isActive: segment.run_pos !== null };
  checkLegal(SEGMENT, MOVE_SEGMENT_RULES[name], segment, facts);
  return segment;
}

function poisonedOf(rows: Rows, move: MoveRow): MoveSegmentRow[] {
  const where: Condition[] = [
    { cell: "move_id", is: "=", value: move.move_id },
    { cell: "state", is: "=", value: "POISONED" },
    { cell: "run_pos", is: "null" },
  ];
  const order = [{ cell: "table_order" }, { cell: "segment_index" }];
  return rows.moveSegments.find(where, order, DECISION_EVENTS_MAX);
}

type Tuning = {
  segment_concurrency?: number | undefined;
  /** Null for no limit. */
  rows_per_second?: number | null | undefined;
};

/** Everything that can be asked of a move. */
export const MOVE_COMMANDS = {
  start: command(MOVE_RULES.start, (move, said: MoveCommand, rows, { principal, hash }) => {
    refuseMoveOverlaps(rows, move, hash);
    return turned(move, "RUNNING", said, principal);
  }),
  pause: command(MOVE_RULES.pause, (move, said: MoveCommand, rows, context) => {
    const stopped = stopMoveRuns(rows, move, context, { comparisons: false });
    return turned(move, "PAUSED", said, context.principal, stopped);
  }),
  resume: command(MOVE_RULES.resume, (move, said: MoveCommand, rows, { principal, hash }) => {
    const to = move.started_at === null ? "PLANNED" : "RUNNING";
    if (to === "RUNNING") refuseMoveOverlaps(rows, move, hash);
    return turned(move, to, said, principal);
  }),
  /** What was quarantined goes on where it stood: one segment, or all with null. */
  retry: command(
    MOVE_RULES.retry,
    (move, said: MoveCommand & { segment_index: number | null }, rows, { principal }) => {
      const { segment_index: index, reason = null } = said;
      const segments =
        index === null ? poisonedOf(rows, move) : [commandedSegment(rows, move, index, "retry")];
      const events = segments.map((segment): NewEvent => {
        // What was verified already only failed to be removed.
        const becomes = segment.digest === null ? "pending" : "copied";
        return moveSegmentChanged(segment, becomes, { changed_by: principal, reason });
      });
      return { events, result: moveChanged(move, move.state, 0) };
    },
  ),
  /** What was copied of a segment is removed from the target first. */
  recopy: command(MOVE_RULES.recopy, (move, said: MoveSegmentCommand, rows, { principal }) => {
    const segment = commandedSegment(rows, move, said.segment_index, "recopy");
    const event = moveSegmentChanged(segment, "pending", {
      generation: segment.generation + 1,
      changed_by: principal,
      reason: said.reason ?? null,
    });
    return { events: [event], result: moveChanged(move, move.state, 0) };
  }),
  exclude: command(
    MOVE_RULES.exclude,
    (move, said: MoveSegmentCommand & { reason: string }, rows, { principal }) => {
      const segment = commandedSegment(rows, move, said.segment_index, "exclude");
      const { reason } = said;
      if (reason.trim() === "") {
        throw new PawlError("INPUT_INVALID", "Say why the segment may stay where it is.");
      }
      const event = moveSegmentChanged(segment, "excluded", { changed_by: principal, reason });
      return { events: [event], result: moveChanged(move, move.state, 0) };
    },
  ),
  /** Of a complete move, it is looked where all rows are. */
  verify: command(MOVE_RULES.verify, (move, _: MoveCommand, _rows, { principal }) => {
    const { move_id } = move;
    const n = move.verifications + 1;
    const event: NewEvent = {
      type: "MoveVerifyRequested",
      idempotency_key: IDEMPOTENCY_KEYS.moveVerify(move_id, n),
      data: { move_id, n, changed_by: principal },
    };
    return { events: [event], result: moveChanged(move, move.state, 0) };
  }),
  retune: command(MOVE_RULES.retune, (move, said: MoveCommand & Tuning, _, { principal }) => {
    if (said.segment_concurrency === undefined && said.rows_per_second === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        "Nothing to retune: give segment_concurrency, rows_per_second, or both.",
      );
    }
    const { segment_concurrency = move.segment_concurrency } = said;
    const { rows_per_second = move.rows_per_second } = said;
    const state_version = move.state_version + 1;
    const event: NewEvent = {
      type: "MoveRetuned",
      idempotency_key: IDEMPOTENCY_KEYS.moveRetune(move.move_id, state_version),
      data: {
        move_id: move.move_id,
        state_version,
        segment_concurrency,
        rows_per_second,
        changed_by: principal,
      },
    };
    return { events: [event], result: moveChanged(move, move.state, 1) };
  }),
  /** What was copied stays where it is, on both sides, and what was removed is gone. */
  cancel: command(MOVE_RULES.cancel, (move, said: MoveCommand, rows, context) => {
    const stopped = stopMoveRuns(rows, move, context, { comparisons: true });
    return turned(move, "CANCELLED", said, context.principal, stopped);
  }),
} satisfies CommandTable<MoveFacts, MoveState>;

export const startMove = MOVE_COMMANDS.start.decide;
export const pauseMove = MOVE_COMMANDS.pause.decide;
export const resumeMove = MOVE_COMMANDS.resume.decide;
export const retrySegments = MOVE_COMMANDS.retry.decide;
export const recopySegment = MOVE_COMMANDS.recopy.decide;
export const excludeSegment = MOVE_COMMANDS.exclude.decide;
export const verifyMove = MOVE_COMMANDS.verify.decide;
export const retuneMove = MOVE_COMMANDS.retune.decide;
export const cancelMove = MOVE_COMMANDS.cancel.decide;

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
