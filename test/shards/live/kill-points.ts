import type { SplitStep } from "../../../src/work/shard/step-protocol.ts";
import type { Shard } from "../../../src/shards/shard.ts";
import type { LiveShardName } from "./project/live-settings.ts";

/** How a split gets to a point: ahead to its end, no further than the cutover, or back. */
export type Path = "ahead" | "cut over" | "back before" | "back after";

/** A place in a step where something may be killed: next to the n-th call of its kind. */
export type KillPoint = {
  readonly name: string;
  readonly step: SplitStep;
  /** A method of a shard, or what is recorded in the ledger. */
  readonly call: `${LiveShardName}.${keyof Shard}` | "caught_up" | "commit";
  /** `unheard`: it has happened, but the answer is lost. */
  readonly when: "before" | "after" | "unheard";
  readonly n: number;
  readonly path: Path;
};

type Place = [what: string, call: KillPoint["call"], when: KillPoint["when"], n?: number];

function points(step: SplitStep, path: Path, places: readonly Place[]): KillPoint[] {
  return places.map(([what, call, when, n = 1]) => ({
    name: `${step}: ${what}`,
    step,
    call,
    when,
    n,
    path,
  }));
}

/** The places of a cutover from one shard to the other. */
function cutoverPlaces(from: LiveShardName, to: LiveShardName): Place[] {
  return [
    ["before close", `${from}.closeFences`, "before"],
    ["after close", `${from}.closeFences`, "after"],
    ["after drain", `${from}.holdFences`, "before"],
    ["after hold", `${from}.holdFences`, "after"],
    ["before the commit record", "commit", "before"],
    ["after the commit record", "commit", "after"],
    ["after the commit record, of which nobody hears", "commit", "unheard"],
    ["after the old owner has moved", `${from}.setFences`, "after"],
    ["after the new owner is open", `${to}.setFences`, "after"],
  ];
}

/** Every place where a split is killed, in the order in which it comes to them. */
export const KILL_POINTS: readonly KillPoint[] = [
  ...points("check", "ahead", [
    ["before anything", "east.take", "before"],
    ["at the first look", "west.take", "after"],
  ]),
  ...points("arm", "ahead", [
    ["before the target", "west.armCapture", "before"],
    ["before the source", "east.armCapture", "before"],
    ["after the source", "east.armCapture", "after"],
    ["after the fences", "east.setFences", "after"],
  ]),
  ...points("copy", "ahead", [
    ["before the first chunk", "west.apply", "before"],
    ["after the first chunk", "west.apply", "after"],
    ["before a later chunk", "west.apply", "before", 3],
    ["after a later chunk", "west.apply", "after", 3],
  ]),
  ...points("tail", "ahead", [
    ["before changes are taken", "west.apply", "before", 2],
    ["after changes are taken", "west.apply", "after", 3],
    ["before caught up is recorded", "caught_up", "before"],
    ["after caught up is recorded", "caught_up", "after"],
  ]),
  ...points("cutover", "ahead", cutoverPlaces("east", "west")),
  ...points("reverse", "cut over", [
    ["before changes are taken", "east.apply", "before"],
    ["after changes are taken", "east.apply", "after", 2],
  ]),
  ...points("finish", "ahead", [
    ["before anything", "east.dropStream", "before"],
    ["half way", "east.disarmCapture", "after"],
  ]),
  ...points("remove", "ahead", [
    ["before the first rows", "east.remove", "before"],
    ["after the first rows", "east.remove", "after"],
  ]),
  ...points("discard", "back before", [
    ["before the first rows", "west.remove", "before"],
    ["after the first rows", "west.remove", "after"],
    ["after the source is free", "east.dropFences", "after"],
  ]),
  ...points("cutback", "back after", cutoverPlaces("west", "east")),
  ...points("discard", "back after", [
    ["after the first rows on the way back", "west.remove", "after"],
  ]),
];

/** Steps after which a split can only go one way. */
const ONE_WAY = new Set<SplitStep>(["finish", "remove", "discard", "cutback"]);

/** Those from which a split can go ahead or back. */
export const OPEN_KILL_POINTS = KILL_POINTS.filter(({ step }) => !ONE_WAY.has(step));
