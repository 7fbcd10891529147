import { setTimeout as sleep } from "node:timers/promises";
import { PawlError } from "../../../src/kernel/errors.ts";
import type { Path } from "./kill-points.ts";
import type { LiveSite, LiveSplit } from "./live-site.ts";

/** Where nothing was to be done it is looked again later: each time takes a server's time. */
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 400;
const PAUSE_GROWTH = 1.5;
const WITHIN_MS = 600_000;

/** Where a split is to be led: `pending` stays before the cutover, `cut over` right after it. */
export type Goal = Path | "back now" | "pending";

type Command =
  | "startDualWrite"
  | "runSplitBackfill"
  | "cutOverSplit"
  | "completeSplit"
  | "rollBackSplit";

/** The command that leads a split on, when it needs one. */
export function nextCommand(split: LiveSplit, goal: Goal): Command | null {
  const { phase, wanted, checks, armed } = split;
  if (phase === "completed" || phase === "rolled_back" || wanted !== null) return null;
  if (goal === "back now") return "rollBackSplit";
  switch (phase) {
    case "planning":
      return checks === null ? null : "startDualWrite";
    case "dual_write":
      return armed ? "runSplitBackfill" : null;
    case "cutover_pending":
      if (goal === "pending") return null;
      return goal === "back before" ? "rollBackSplit" : "cutOverSplit";
    case "reversible":
      if (goal === "cut over") return null;
      return goal === "ahead" ? "completeSplit" : "rollBackSplit";
    default:
      return null;
  }
}

/** Whether a split has come to its end, and everything that follows from it. */
export function isOver({ phase, removed_at }: LiveSplit): boolean {
  return phase === "rolled_back" || (phase === "completed" && removed_at !== null);
}

/** Refusals that only say that it is too early. */
const TOO_EARLY = new Set(["STATE_ILLEGAL", "STATE_VERSION_MISMATCH", "NOT_YET"]);

/** Leads splits to their goals until enough is reached; fails when that takes too long. */
export async function driveSplits(
  site: LiveSite,
  goals: ReadonlyMap<string, Goal>,
  isEnough: (splits: readonly LiveSplit[]) => boolean,
): Promise<LiveSplit[]> {
  const deadline = performance.now() + WITHIN_MS;
  const refusals = new Map<string, string>();
  let pauseMs = PAUSE_MS_MIN;
  for (;;) {
    const splits = await listSplits(site, goals);
    if (isEnough(splits)) return splits;
    if (performance.now() > deadline) throw await late(site, splits, refusals);
    pauseMs = Math.min(pauseMs * PAUSE_GROWTH, PAUSE_MS_MAX);
    await Promise.all(
      splits.map(async (split) => {
        const command = nextCommand(split, goals.get(split.split_id) ?? "ahead");
        if (command === null) return;
        try {
          await site.client.call(command, { params: { split: split.split_id }, body: {} });
          pauseMs = PAUSE_MS_MIN;
        } catch (error) {
          if (!(error instanceof PawlError && TOO_EARLY.has(error.code))) throw error;
          refusals.set(split.split_id, error.message);
        }
      }),
    );
    await sleep(pauseMs);
  }
}

/** Leads one split until it is as it should be. */
export async function driveSplit(
  site: LiveSite,
  split: string,
  goal: Goal,
  isReached: (split: LiveSplit) => boolean = isOver,
): Promise<LiveSplit> {
  const [reached] = await driveSplits(site, new Map([[split, goal]]), ([only]) =>
    only === undefined ? false : isReached(only),
  );
  if (reached === undefined) throw new Error(`There is no split ${split}.`);
  return reached;
}

async function listSplits(site: LiveSite, goals: ReadonlyMap<string, Goal>): Promise<LiveSplit[]> {
  const found: LiveSplit[] = [];
  for await (const split of site.client.each("listSplits", { query: { limit: 200 } })) {
    if (goals.has(split.split_id)) found.push(split);
  }
  return found;
}

async function late(
  { tables }: LiveSite,
  splits: readonly LiveSplit[],
  refusals: ReadonlyMap<string, string>,
): Promise<Error> {
  const left = splits.filter((split) => !isOver(split));
  const lines = left.map(({ split_id, tenants, phase, wanted, step, error_message }) => {
    const doing = `${phase}, wants ${wanted}, ${step?.step} ${step?.state} (${step?.attempt})`;
    return `${tenants[0]}: ${doing}; ${error_message ?? refusals.get(split_id) ?? "no error"}`;
  });
  const waits = [...(await tables.east.waits()), "west:", ...(await tables.west.waits())];
  return new Error(`Not within ${WITHIN_MS} ms:\n${[...lines, "east:", ...waits].join("\n")}`);
}
