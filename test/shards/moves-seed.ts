import {
  pauseMove,
  resumeMove,
  retuneMove,
  startMove,
  verifyMove,
  recopySegment,
  retrySegments,
} from "../../src/work/move/commands.ts";
import { movingPairs } from "../../src/work/move/lanes.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { MoveAudit } from "../simulation/audit-moves.ts";
import { Random } from "../simulation/random.ts";
import { drawStrategy, drawTopology } from "./moves-draw.ts";
import { NO_FAULTS } from "./moves-faults.ts";
import { faultsOfRows } from "./moves-rows.ts";
import { MoveWorld } from "./moves-world.ts";

const SHARDS = ["a", "b", "c"];
const REFUSALS = new Set(["SEGMENT_NOT_FOUND", "STATE_ILLEGAL"]);
/** Rounds with faults and somebody who interferes, before all is left alone. */
const ROUNDS_MAX = 60;

/** Moves rows from one random topology to another under random failures; answers what went wrong. */
export async function moveSeed(seed: number): Promise<string[]> {
  const random = new Random(seed);
  const world = await MoveWorld.create(SHARDS, seed);
  try {
    return await moved(world, random);
  } finally {
    await world.close();
  }
}

async function moved(world: MoveWorld, random: Random): Promise<string[]> {
  const from = drawTopology(random, SHARDS);
  const to = drawTopology(random, SHARDS);
  const length = random.integer(0, 60);
  world.files.put(
    from,
    Array.from({ length }, () => `t${random.integer(0, 11)}`),
  );
  const before = world.files.rows();
  if (movingPairs(from, to).length === 0) return [];
  const strategy = drawStrategy(random);
  const isUniform = (strategy as { type: string }).type === "uniform";
  const keep_source = random.chance(0.15);
  const id = world.plan({
    from,
    to,
    strategy,
    keep_source,
    ...(isUniform ? { tables: ["customers"] } : {}),
    segment_concurrency: random.integer(1, 5),
    segment_attempts: random.integer(2, 6),
    retry_budget: random.chance(0.3) ? random.integer(5, 20) : null,
    rows_per_second: random.chance(0.2) ? random.integer(1, 50) : null,
  });
  if (random.chance(0.5)) await world.work();
  world.submit(startMove({ move: id }));
  world.settle();
  const problems: string[] = [];
  await interfere(world, random, id, problems);
  await leaveAlone(world, id, problems);
  const expected = expectedRows(world, before, { to, keep_source, isUniform });
  problems.push(...difference(expected, world.files.rows()));
  problems.push(...world.repeated.map((stream) => `${stream} was written once it was finished`));
  return [...problems, ...faultsOfLedger(world)];
}

/** What the events say about themselves. */
function faultsOfLedger(world: MoveWorld): string[] {
  const faults: string[] = [];
  const check = (condition: boolean, promise: string, what: string): void => {
    if (!condition) faults.push(`${promise} ${what}`);
  };
  const audit = new MoveAudit({ check });
  for (const event of world.events) audit.see({ ...event, occurred_at: world.now });
  return faults;
}

/** Workers die, freeze and fail while somebody pauses, resumes, retries and copies again. */
async function interfere(
  world: MoveWorld,
  random: Random,
  id: string,
  problems: string[],
): Promise<void> {
  world.faults = {
    kill: random.next() * 0.05,
    freeze: random.next() * 0.02,
    fail: random.next() * 0.05,
  };
  for (let round = 0; round < ROUNDS_MAX; round++) {
    await world.round(random.integer(1, 6));
    if (random.chance(0.2)) await world.thaw();
    if (random.chance(0.2)) act(world, random, id);
    problems.push(...faultsOfRows(world));
    const { state } = world.move(id);
    if (state === "COMPLETE") return;
    if (state === "PAUSED" && random.chance(0.5)) attemptTo(world, () => resumeMove({ move: id }));
  }
}

function act(world: MoveWorld, random: Random, move: string): void {
  const segment_index = random.integer(0, Math.max(0, world.move(move).segments_total - 1));
  switch (random.weighted({ pause: 2, retry: 3, recopy: 2, verify: 1, retune: 1 })) {
    case "pause":
      return attemptTo(world, () => pauseMove({ move }));
    case "retry":
      return attemptTo(world, () => retrySegments({ move, segment_index: null }));
    case "recopy":
      return attemptTo(world, () => recopySegment({ move, segment_index }));
    case "verify":
      return attemptTo(world, () => verifyMove({ move }));
    case "retune":
      return attemptTo(world, () =>
        retuneMove({ move, segment_concurrency: random.integer(1, 5) }),
      );
  }
}

/** A person's wish may be refused; anything but a refusal is a fault. */
function attemptTo(world: MoveWorld, wish: () => Parameters<MoveWorld["submit"]>[0]): void {
  try {
    world.submit(wish());
  } catch (error) {
    if (!(error instanceof PawlError) || !REFUSALS.has(error.code)) throw error;
  }
  world.settle();
}

/** Nothing fails any more, and whatever was quarantined is tried again: then it comes to an end. */
async function leaveAlone(world: MoveWorld, move: string, problems: string[]): Promise<void> {
  world.faults = NO_FAULTS;
  await world.thaw();
  for (let turn = 0; turn < 50 && world.move(move).state !== "COMPLETE"; turn++) {
    if (world.move(move).state === "PAUSED") attemptTo(world, () => resumeMove({ move }));
    attemptTo(world, () => retrySegments({ move, segment_index: null }));
    await world.work();
  }
  problems.push(...faultsOfRows(world));
  const { state, reason, last_error } = world.move(move);
  if (state === "COMPLETE") return;
  problems.push(`it ended ${state}: ${reason ?? last_error?.message ?? "nobody knows why"}`);
}

function expectedRows(
  world: MoveWorld,
  before: readonly string[],
  plan: {
    to: Parameters<MoveWorld["files"]["placed"]>[1];
    keep_source: boolean;
    isUniform: boolean;
  },
): string[] {
  const isMoved = (row: string): boolean => !plan.isUniform || row.includes(" customers ");
  const stay = before.filter((row) => !isMoved(row));
  const placed = world.files.placed(before.filter(isMoved), plan.to);
  const kept = plan.keep_source ? before.filter(isMoved) : [];
  return [...new Set([...stay, ...placed, ...kept])].toSorted();
}

function difference(expected: readonly string[], found: readonly string[]): string[] {
  const missing = expected.filter((row) => !found.includes(row));
  const extra = found.filter((row) => !expected.includes(row));
  return [
    ...missing.map((row) => `missing: ${row}`),
    ...extra.map((row) => `too much: ${row}`),
    ...(expected.length === found.length ? [] : [`${found.length} rows, not ${expected.length}`]),
  ];
}
