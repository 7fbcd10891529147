import type { EventData } from "../../../../src/work/events.ts";
import { counted, momentText } from "../../parts/time-text.ts";
import { byWhom, failureText, named, type Sentences, someNames, stateWord } from "./sentence.ts";

function routingChanged({
  version,
  routes,
  default_shard,
  cause,
  ...data
}: EventData<"RoutingChanged">): string {
  const parts = [
    default_shard === undefined ? "" : `shard ${named(default_shard)} by default`,
    routes.length === 0 ? "" : someNames(routes.map(({ tenant, shard }) => `${tenant} → ${shard}`)),
  ];
  const why = cause.type === "split" ? " by a cutover" : "";
  const told = parts.filter((part) => part !== "").join("; ");
  return `Version ${version} of the routing${why}: ${told}${byWhom(data.changed_by, data.reason)}`;
}

/** The routing and splits in sentences. */
export const SPLIT_SENTENCES: Sentences<
  | "RoutingChanged"
  | "SplitPlanned"
  | "SplitPhaseChanged"
  | "SplitWanted"
  | "SplitStepSettled"
  | "SplitCaughtUp"
  | "SplitCutOver"
> = {
  RoutingChanged: routingChanged,
  SplitPlanned: ({ tenants, source, target, changed_by }) =>
    `${named(changed_by)} planned a split of ${someNames(tenants)} from ${named(source)} to ` +
    `${named(target)}.`,
  SplitPhaseChanged: ({ from_phase, to_phase, changed_by, reason }) =>
    `The split went from ${stateWord(from_phase)} to ${stateWord(to_phase)}` +
    byWhom(changed_by, reason),
  SplitWanted: ({ wanted, changed_by, reason }) =>
    `${stateWord(wanted)} was requested${byWhom(changed_by, reason)}`,
  SplitStepSettled: ({ step, n, outcome, reason, again_at }) =>
    `Step ${n} (${step}) ended: ${stateWord(outcome)}${byWhom(null, reason)}` +
    (again_at === undefined ? "" : ` Retry at ${momentText(again_at)}.`),
  SplitCaughtUp: () => "The target has caught up with the source, and the copy is verified.",
  SplitCutOver: ({ direction, routing_version }) =>
    `Tenants were cut over ${direction === "forward" ? "to the target" : "back to the source"} ` +
    `with version ${routing_version} of the routing.`,
};

const BECOMES: Readonly<Record<string, string>> = {
  pending: "will be copied",
  copied: "is copied and verified",
  removed: "is removed from the source",
  poisoned: "is quarantined",
  excluded: "is excluded",
};

/** Moves in sentences. */
export const MOVE_SENTENCES: Sentences<
  | "MovePlanned"
  | "MoveStateChanged"
  | "MoveRetuned"
  | "MoveSegmentsPlanned"
  | "MoveSegmentSplit"
  | "MoveSegmentChanged"
  | "MoveVerifyRequested"
  | "MoveChecked"
> = {
  MovePlanned: ({ name, lanes, dry_run, changed_by }) =>
    `${named(changed_by)} planned a ${dry_run ? "dry run of a " : ""}move` +
    `${name === null ? "" : ` ${named(name)}`} with ${counted(lanes.length, "lane")}.`,
  MoveStateChanged: ({ from_state, to_state, changed_by, reason }) =>
    `The move went from ${stateWord(from_state)} to ${stateWord(to_state)}` +
    byWhom(changed_by, reason),
  MoveRetuned: ({ segment_concurrency, rows_per_second, changed_by }) =>
    `The move continues with ${counted(segment_concurrency, "concurrent segment")} and ` +
    (rows_per_second === null ? "no row limit" : `${rows_per_second} rows a second`) +
    byWhom(changed_by, null),
  MoveSegmentsPlanned: ({ lane, segments, sealed }) =>
    `${counted(segments.length, "segment")} found in lane ${lane}` +
    `${sealed ? "; the lane is complete" : ""}.`,
  MoveSegmentSplit: ({ segment_index, rest }) =>
    `Segment ${segment_index} was too large; its rest is segment ${rest.segment_index}.`,
  MoveSegmentChanged: ({ segment_index, becomes, error, changed_by, reason }) =>
    `Segment ${segment_index} ${BECOMES[becomes] ?? becomes}` +
    `${error === null ? "" : ` (${failureText(error)})`}${byWhom(changed_by, reason)}`,
  MoveVerifyRequested: ({ changed_by }) =>
    `${named(changed_by)} requested to verify all copied segments.`,
  MoveChecked: ({ segment_index, ok }) =>
    `${segment_index === null ? "The check for misplaced rows" : `The comparison of segment ${segment_index}`} ` +
    `${ok ? "passed" : "failed"}.`,
};
