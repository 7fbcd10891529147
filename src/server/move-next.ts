import type { NextField } from "../core/api/shard-fields.ts";
import type { MovePhase, MoveRow } from "../core/rows/move-rows.ts";

type Command = NextField["commands"][number];

/** What a move does now, in words, and which commands make sense. */
export function nextOfMove(move: MoveRow, phase: MovePhase, lacksWorker: boolean): NextField {
  const aside = move.segments_poisoned;
  const asideText =
    aside === 0
      ? ""
      : ` ${aside === 1 ? "1 segment was" : `${aside} segments were`} set aside and ` +
        `${aside === 1 ? "waits" : "wait"} for somebody to decide.`;
  const waits = lacksWorker ? " It waits for a worker that knows its shards." : "";
  return { text: `${doing(move, phase)}${waits}${asideText}`, commands: commandsOf(move) };
}

function doing(move: MoveRow, phase: MovePhase): string {
  switch (move.state) {
    case "PLANNED":
      return plannedText(move);
    case "RUNNING":
      return move.check_run_pos !== null && (phase === "survey" || phase === "copy")
        ? "It is looked whether all of it can be copied to where it belongs."
        : RUNNING_TEXT[phase];
    case "PAUSED": {
      const why = move.reason === null ? "" : ` (${move.reason})`;
      return `It is paused${why}; nothing is copied or removed.`;
    }
    case "COMPLETE":
      return completeText(move);
    case "CANCELLED":
      return "It was cancelled; what was copied stays where it is.";
  }
}

function plannedText(move: MoveRow): string {
  const { lanes, lanes_sealed, rows_estimated, segments_total, dry_run, check_ok } = move;
  const sizes = `${counted(rows_estimated, "row")} in ${counted(segments_total, "segment")}`;
  if (lanes_sealed < lanes.length) return `It is looked how much there is: ${sizes} so far.`;
  const looked =
    check_ok === null ? "it is looked whether that is possible" : "it was only looked at";
  const end = dry_run === 1 ? looked : "nothing was copied yet";
  return `${sizes} would be moved; ${end}.`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

const RUNNING_TEXT: Readonly<Record<MovePhase, string>> = {
  survey: "It is looked how many segments there are, and those known are copied.",
  copy: "Segments are copied and verified.",
  remove: "All is copied and verified; rows are removed from where they came from.",
  check: "It is looked whether every row is on the shard where it belongs.",
  done: "It is done.",
};

function completeText({ check_ok, check_report }: MoveRow): string {
  if (check_ok !== 0) return "It is complete; every row is where it belongs.";
  if (check_report?.equal === false) {
    return "It is complete, but some rows are not where they belong.";
  }
  const why = check_report?.note?.replace(/\.$/, "") ?? "that failed";
  return `It is complete; when it was to be looked at again, ${why}.`;
}

function commandsOf(move: MoveRow): Command[] {
  const { state, segments_poisoned, dry_run } = move;
  const command = (name: string, effect: string): Command => ({ command: name, effect });
  const cancel = command("cancel", "ends it for good; what was copied stays where it is");
  const retune = command("retune", "changes how many segments are copied at once, or how fast");
  const aside =
    segments_poisoned === 0
      ? []
      : [
          command("retry", "tries segments that were set aside once more"),
          command("recopy", "copies a segment again from its beginning"),
          command("exclude", "lets a segment that was set aside stay where it is, on record"),
        ];
  const pause = command("pause", "stops it; segments keep how far they got");
  const verify = command("verify", "compares everything that was copied once more");
  switch (state) {
    case "PLANNED":
      if (dry_run === 1) return [cancel];
      return [command("start", startEffect(move)), retune, cancel];
    case "RUNNING":
      return [pause, ...aside, verify, retune, cancel];
    case "PAUSED":
      return [command("resume", "lets it go on"), ...aside, verify, retune, cancel];
    case "COMPLETE":
      return [verify];
    case "CANCELLED":
      return [];
  }
}

/** What starting a move will do to the rows. */
function startEffect({ plan }: MoveRow): string {
  return plan.keep_source
    ? "copies the rows; they stay on the shards that they came from as well"
    : "copies the rows and then removes them from the shards that they came from";
}
