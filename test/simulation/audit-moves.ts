import type { EventData } from "../../src/work/events.ts";
import type { MoveRow } from "../../src/work/move/rows.ts";
import type { ShardKey, ShardWorkRef } from "../../src/work/shard/step-protocol.ts";
import type { Audited } from "./audit-ledger.ts";
import type { ScratchRows } from "./audit-rows.ts";
import type { Violations } from "./violations.ts";

type State = EventData<"MoveStateChanged">["to_state"];
type MoveRef = Extract<ShardWorkRef, { work: "move" }>;

const LEGAL: Record<State, readonly State[]> = {
  PLANNED: ["RUNNING", "PAUSED", "CANCELLED"],
  RUNNING: ["PAUSED", "COMPLETE", "CANCELLED"],
  PAUSED: ["RUNNING", "PLANNED", "CANCELLED"],
  COMPLETE: [],
  CANCELLED: [],
};

/** What becomes of a segment, from what it may be. */
const BECOMES: Record<string, readonly string[]> = {
  pending: ["pending", "copied", "poisoned"],
  copied: ["pending", "poisoned"],
  removed: ["copied"],
  poisoned: ["pending", "copied"],
  excluded: ["poisoned"],
};

type Segment = {
  lane: number;
  lower: ShardKey | null;
  upper: ShardKey | null;
  generation: number;
  state: string;
  runs: number;
  changes: number;
  /** The step that has a run now. */
  step: string | null;
  /** Steps that ended well, as `step:generation`. */
  ended: Set<string>;
};

type Lane = {
  after: ShardKey | null;
  pages: number;
  sealed: boolean;
  active: boolean;
  runs: number;
};

/** A move as the audit understands it. */
class AuditedMove {
  readonly data: EventData<"MovePlanned">;
  readonly lanes: Lane[];
  readonly segments = new Map<number, Segment>();
  state: State = "PLANNED";
  version = 1;
  concurrency: number;
  checks = 0;
  lastCheck: boolean | null = null;

  constructor(data: EventData<"MovePlanned">) {
    this.data = data;
    this.concurrency = data.plan.segment_concurrency;
    this.lanes = data.lanes.map(() => ({
      after: null,
      pages: 0,
      sealed: false,
      active: false,
      runs: 0,
    }));
  }

  count(holds: (segment: Segment) => boolean): number {
    return [...this.segments.values()].filter(holds).length;
  }

  /** What is wrong with the segments of a lane; null when they tile its keys as far as it is surveyed. */
  tilingFault(lane: number): string | null {
    const { after = null, sealed = false } = this.lanes[lane] ?? {};
    const own = [...this.segments.values()].filter((segment) => segment.lane === lane);
    const byLower = new Map(own.map((segment) => [text(segment.lower), segment]));
    if (byLower.size !== own.length) return "two segments begin with the same key";
    let place: ShardKey | null = null;
    for (let walked = 0; walked < own.length; walked++) {
      const segment = byLower.get(text(place));
      if (segment === undefined) return `nothing begins with ${text(place)}`;
      place = segment.upper;
      if (place === null && walked < own.length - 1) return "it ends before its last segment";
    }
    const end = sealed ? null : after;
    if (own.length === 0 || text(place) === text(end)) return null;
    return `it ends at ${text(place)}, not ${text(end)}`;
  }
}

function text(key: ShardKey | null): string {
  return JSON.stringify(key);
}

/** Follows moves and their segments through the ledger. */
export class MoveAudit {
  readonly byId = new Map<string, AuditedMove>();
  readonly #violations: Pick<Violations, "check">;

  constructor(violations: Pick<Violations, "check">) {
    this.#violations = violations;
  }

  /** Looks at one event; most are none of its business. */
  see(event: Audited): void {
    switch (event.type) {
      case "MovePlanned":
        this.#check(event, !this.byId.has(event.data.move_id), "I19", "it is there already");
        this.byId.set(event.data.move_id, new AuditedMove(event.data));
        return;
      case "MoveStateChanged":
        return this.#stateChanged(event);
      case "MoveRetuned": {
        const move = this.#raise(event);
        move.concurrency = event.data.segment_concurrency;
        return;
      }
      case "MoveSegmentsPlanned":
        return this.#planned(event);
      case "MoveSegmentSplit":
        return this.#split(event);
      case "MoveSegmentChanged":
        return this.#changed(event);
      case "MoveChecked":
        if (event.data.segment_index === null) {
          this.#get(event.data.move_id).lastCheck = event.data.ok;
        }
        return;
      case "RunRequested": {
        const { trigger_source_ref: source } = event.data;
        if (source.type === "shards" && source.work.work === "move") {
          this.#requested(source.work, event.pos);
        }
        return;
      }
      case "RunFinished": {
        const { shard_work: work, outcome } = event.data;
        if (work?.work === "move") this.#finished(work, outcome);
        return;
      }
      default:
        return;
    }
  }

  #stateChanged(event: Audited<"MoveStateChanged">): void {
    const { from_state, to_state } = event.data;
    const move = this.#raise(event);
    const isLegal = move.state === from_state && LEGAL[from_state].includes(to_state);
    this.#check(event, isLegal, "I31", `${move.state} to ${to_state}`);
    move.state = to_state;
    if (to_state === "RUNNING") move.lastCheck = null;
    if (to_state !== "COMPLETE") return;
    const last = move.data.plan.keep_source ? ["copied", "excluded"] : ["removed", "excluded"];
    const open = move.count(({ state, step }) => !last.includes(state) || step !== null);
    this.#check(event, open === 0, "I33", `it is complete with ${open} open segments`);
    this.#check(
      event,
      move.lanes.every(({ sealed }) => sealed),
      "I47",
      "it is not surveyed",
    );
    this.#check(event, move.lastCheck === true, "I47", "nobody has looked where its rows are");
  }

  #planned(event: Audited<"MoveSegmentsPlanned">): void {
    const { move_id, lane: index, page, first_index, segments, sealed } = event.data;
    const move = this.#get(move_id);
    const lane = move.lanes[index];
    if (lane === undefined) throw new Error(`there is no lane ${index}`);
    this.#check(event, !lane.sealed && page === lane.pages, "I29", `page ${page} comes again`);
    this.#check(event, first_index === move.segments.size, "I47", "indexes have a hole");
    for (const [offset, { lower, upper }] of segments.entries()) {
      this.#add(move, first_index + offset, { lane: index, lower, upper });
    }
    Object.assign(lane, { pages: page + 1, sealed, after: segments.at(-1)?.upper ?? null });
    this.#tiles(event, move, index);
  }

  #split(event: Audited<"MoveSegmentSplit">): void {
    const { move_id, segment_index, split_at, rest } = event.data;
    const move = this.#get(move_id);
    const segment = this.#segment(move, segment_index);
    this.#check(event, rest.segment_index === move.segments.size, "I47", "indexes have a hole");
    const { lane, upper } = segment;
    segment.upper = split_at;
    this.#add(move, rest.segment_index, { lane, lower: split_at, upper });
    this.#tiles(event, move, lane);
  }

  #changed(event: Audited<"MoveSegmentChanged">): void {
    const { move_id, segment_index, n, generation, becomes, changed_by } = event.data;
    const segment = this.#segment(this.#get(move_id), segment_index);
    const name = `segment ${segment_index}`;
    this.#check(event, n === segment.changes + 1, "I29", `${name} is changed twice as ${n}`);
    const isLegal = (BECOMES[becomes] ?? []).includes(segment.state) && segment.step === null;
    this.#check(event, isLegal, "I31", `${name} is ${segment.state} and becomes ${becomes}`);
    const isNext = generation === segment.generation + 1 && becomes === "pending";
    this.#check(event, isNext || generation === segment.generation, "I29", `${name}: generation`);
    const wasDone = (step: string): boolean => segment.ended.has(`${step}:${generation}`);
    if (becomes === "copied") this.#check(event, wasDone("copy"), "I48", `${name} was not copied`);
    if (becomes === "removed") this.#check(event, wasDone("remove"), "I48", `${name} is there`);
    const isCopied = segment.state === "copied" || segment.state === "pending";
    const isAgain = becomes === "pending" && isCopied && !isNext;
    this.#check(event, !isAgain, "I29", `${name} is copied again under its generation`);
    if (becomes === "excluded") {
      this.#check(event, changed_by !== null, "I69", `${name} is excluded by nobody`);
    }
    Object.assign(segment, { state: becomes, generation, changes: n });
  }

  #requested(work: MoveRef, pos: number): void {
    const move = this.#get(work.move_id);
    const check = (condition: boolean, promise: string, what: string): void =>
      this.#violations.check(condition, promise, `move ${work.move_id} at ${pos}: ${what}`);
    if (work.step === "check") {
      check(work.n === move.checks + 1, "I29", `look ${work.n} follows ${move.checks}`);
      move.checks = work.n;
      return;
    }
    if (work.step === "survey") {
      const lane = move.lanes[work.index ?? -1];
      check(lane?.active === false && !lane.sealed, "I29", `lane ${work.index} is surveyed twice`);
      if (lane !== undefined) Object.assign(lane, { active: true, runs: work.n });
      return;
    }
    const segment = this.#segment(move, work.index ?? -1);
    const name = `segment ${work.index}`;
    check(segment.step === null && work.n === segment.runs + 1, "I29", `${name} runs twice`);
    Object.assign(segment, { step: work.step, runs: work.n });
    if (work.step === "copy") check(segment.state === "pending", "I29", `${name} is finished`);
    if (work.step !== "verify") check(move.state === "RUNNING", "I31", `${name}: ${move.state}`);
    const active = move.count(({ step }) => step !== null);
    check(active <= move.concurrency, "I30", `${active} segments run, ${move.concurrency} may`);
    if (work.step === "copy") this.#inOrder(move, segment, check);
  }

  /** A table is copied after those that its rows may name. */
  #inOrder(
    move: AuditedMove,
    segment: Segment,
    check: (condition: boolean, promise: string, what: string) => void,
  ): void {
    const orderOf = (lane: number): number => move.data.lanes[lane]?.order ?? 0;
    const own = orderOf(segment.lane);
    const isBefore = move.count(({ lane, state }) => orderOf(lane) < own && state === "pending");
    const isOpen = move.lanes.some(({ sealed }, lane) => orderOf(lane) < own && !sealed);
    check(isBefore === 0 && !isOpen, "I39", "a table is copied before one that it may name");
  }

  #finished(work: MoveRef, outcome: string): void {
    const move = this.#get(work.move_id);
    if (work.step === "check") return;
    if (work.step === "survey") {
      const lane = move.lanes[work.index ?? -1];
      if (lane !== undefined) lane.active = false;
      return;
    }
    const segment = this.#segment(move, work.index ?? -1);
    segment.step = null;
    if (outcome === "SUCCEEDED") segment.ended.add(`${work.step}:${segment.generation}`);
  }

  /** Holds the row of the move against what follows from the events. */
  compareRows({ data, pos }: Audited, scratch: ScratchRows): void {
    if (!("move_id" in data)) return;
    const move = this.byId.get(data.move_id);
    const found = scratch.text("moves", data.move_id);
    if (move === undefined || found === null) return;
    const row = JSON.parse(found) as MoveRow;
    for (const [cell, value] of Object.entries(expectedRow(move))) {
      const is = row[cell as keyof MoveRow];
      const what = `${cell} of ${data.move_id} at ${pos} is ${JSON.stringify(is)}, not ${value}`;
      this.#violations.check(is === value, "I33", what);
    }
  }

  #add(move: AuditedMove, index: number, given: Pick<Segment, "lane" | "lower" | "upper">): void {
    move.segments.set(index, {
      ...given,
      generation: 0,
      state: "pending",
      runs: 0,
      changes: 0,
      step: null,
      ended: new Set(),
    });
  }

  #tiles(event: MoveEvent, move: AuditedMove, lane: number): void {
    const fault = move.tilingFault(lane);
    this.#check(event, fault === null, "I47", `lane ${lane}: ${fault}`);
  }

  #raise(event: Audited<"MoveStateChanged"> | Audited<"MoveRetuned">): AuditedMove {
    const move = this.#get(event.data.move_id);
    const { state_version } = event.data;
    this.#check(event, state_version === move.version + 1, "I7", `version ${state_version}`);
    move.version = state_version;
    return move;
  }

  #check(event: MoveEvent, condition: boolean, promise: string, what: string): void {
    const { move_id } = event.data;
    this.#violations.check(condition, promise, `move ${move_id} at ${event.pos}: ${what}`);
  }

  #segment(move: AuditedMove, index: number): Segment {
    const segment = move.segments.get(index);
    if (segment === undefined) throw new Error(`there is no segment ${index}`);
    return segment;
  }

  #get(id: string): AuditedMove {
    const move = this.byId.get(id);
    if (move === undefined) throw new Error(`there is no move ${id}`);
    return move;
  }
}

type MoveEvent = { data: { move_id: string }; pos: number };

function expectedRow(move: AuditedMove): Partial<Record<keyof MoveRow, string | number>> {
  const inState = (state: string): number => move.count((segment) => segment.state === state);
  return {
    state: move.state,
    state_version: move.version,
    segment_concurrency: move.concurrency,
    lanes_sealed: move.lanes.filter(({ sealed }) => sealed).length,
    next_segment: move.segments.size,
    segments_total: move.segments.size,
    segments_pending: inState("pending"),
    segments_copied: inState("copied"),
    segments_removed: inState("removed"),
    segments_poisoned: inState("poisoned"),
    segments_excluded: inState("excluded"),
    segments_active: move.count(({ step }) => step !== null),
  };
}
