import type {
  MoveDetails,
  MoveDocument,
  MoveSegmentDetails,
  MoveSegmentDocument,
} from "../../work/move/api.ts";
import type { Topology } from "../../work/shard/spec.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import { shortId } from "../base/api.ts";
import {
  counted,
  countsText,
  countText,
  errorText,
  type Field,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paint,
  paintState,
  rateText,
  type Terminal,
} from "../base/terminal.ts";

const PHASES = ["survey", "copy", "remove", "check", "done"] as const;

/** Lanes that are shown. */
const LANES_SHOWN_MAX = 20;

/** Bytes for people: `1.5 MB`. */
function bytesText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** What a move is called: its name, if it has one, and its id. */
export function moveLabel({ name, move_id }: { name: string | null; move_id: string }): string {
  return name === null ? move_id : `${name} (${move_id})`;
}

function phasesText(terminal: Terminal, { phase, state, keep_source }: MoveDocument): string {
  if (state === "CANCELLED") return paintState(terminal, state);
  const shown = PHASES.filter((name) => name !== "remove" || !keep_source);
  const at = shown.indexOf(phase);
  const steps = shown.map((name, index) => {
    if (index < at || phase === "done") return paint(terminal, "green", `✓ ${name}`);
    return index > at ? paint(terminal, "dim", `· ${name}`) : paint(terminal, "cyan", `▶ ${name}`);
  });
  return steps.join("  ");
}

/** A move as it is now, on a few lines: what `status` shows and `watch` draws. */
export function moveLines(terminal: Terminal, move: MoveDocument): string[] {
  const ways = `${move.shards_from.join(", ")} → ${move.shards_to.join(", ")}`;
  return [
    `Move ${moveLabel(move)}  ${ways}${move.dry_run ? "  (dry run)" : ""}`,
    "",
    phasesText(terminal, move),
    "",
    ...layoutFields(statusFields(terminal, move)).split("\n"),
    "",
    move.next.text,
    ...move.next.commands.map(({ command, effect }) => `  pawl move ${command}: ${effect}`),
  ];
}

function statusFields(terminal: Terminal, move: MoveDocument): Field[] {
  const now = terminal.now();
  const { last_error: error, rate_rows_per_second: rate, eta_seconds: eta } = move;
  return [
    ["state", `${paintState(terminal, move.state)} (version ${move.state_version})`],
    ["reason", move.reason],
    ["segments", segmentCounts(move)],
    [
      "rows",
      `${countText(move.rows_copied)} of ${move.surveyed ? "" : "at least "}` +
        `${countText(move.rows_estimated)} copied, ${bytesText(move.bytes_copied)}`,
    ],
    ["removed", move.keep_source ? null : counted(move.rows_removed, "row")],
    [
      "rate",
      rate === null
        ? null
        : `${rateText(rate)}${eta === null ? "" : `, ETA ${formatDuration(eta * 1_000)}`}`,
    ],
    ["concurrency", `${counted(move.segment_concurrency, "segment")}${limitText(move)}`],
    ["retries", retriesText(move)],
    ["comparisons", verificationText(move)],
    ["check", checkText(move)],
    [
      "last error",
      error === null ? null : `${errorText(error)} (${relativeTime(move.last_error_at, now)})`,
    ],
  ];
}

function limitText({ rows_per_second: limit }: MoveDocument): string {
  return limit === null ? "" : `, at most ${countText(limit)} rows a second`;
}

function segmentCounts(move: MoveDocument): string {
  const counts = countsText([
    [move.segments_pending, "pending"],
    [move.segments_copied, "copied"],
    [move.segments_removed, "removed"],
    [move.segments_poisoned, "quarantined"],
    [move.segments_excluded, "excluded"],
  ]);
  const more = move.surveyed ? "" : " so far";
  // Those at work are among the others, by what they were before: they add nothing to the total.
  // What is compared goes on in a paused move, and in a complete one.
  const isAtWork =
    move.state === "RUNNING" || (move.state !== "CANCELLED" && move.verify_waiting > 0);
  const doing = isAtWork ? "at work" : "stopping";
  const active = move.segments_active === 0 ? "" : ` (${move.segments_active} of them ${doing})`;
  return `${move.segments_total}${more}: ${counts || "none"}${active}`;
}

function retriesText({ retries, retries_counted, retry_budget }: MoveDocument): string | null {
  if (retries === 0 && (retry_budget === null || retries_counted === 0)) return null;
  const failed = `${counted(retries_counted, "failed attempt")} of a budget of ${retry_budget}`;
  const budget = retry_budget === null ? "" : `, ${failed}`;
  return `${retries}${budget}`;
}

function verificationText(move: MoveDocument): string | null {
  const { verifications, verify_waiting, verify_failed } = move;
  if (verifications === 0) return null;
  const found = verify_failed === 0 ? "all equal" : `${verify_failed} not found equal`;
  return `${verifications} asked for, ${counted(verify_waiting, "segment")} to go, ${found}`;
}

function checkText({ check, phase }: MoveDocument): string | null {
  if (check.running) return "under way";
  if (check.ok === null) return null;
  const isBefore = phase === "survey" || phase === "copy";
  if (check.ok) return isBefore ? "nothing stands in the way" : "every row is where it belongs";
  if (check.note !== null) return check.note;
  const places = check.misplaced
    .slice(0, 5)
    .map(({ shard, table, rows }) => `${countText(rows)} of ${table} on ${shard}`);
  return `not where they belong: ${places.join(", ")}`;
}

/** One line about a move, for those who read a log. */
export function moveLine(move: MoveDocument): string {
  const settled = move.segments_copied + move.segments_removed + move.segments_excluded;
  const aside = move.segments_poisoned === 0 ? "" : `, ${move.segments_poisoned} quarantined`;
  const rate = move.rate_rows_per_second === null ? "" : `, ${rateText(move.rate_rows_per_second)}`;
  return (
    `${move.state} ${move.phase}, ${settled}/${move.segments_total} segments, ` +
    `${counted(move.rows_copied, "row")}${rate}${aside}`
  );
}

/** A page of moves. */
export function movesText(terminal: Terminal, page: Page<MoveDocument>): string {
  return layoutPage(page, "There are no such moves; `pawl move plan` plans one.", [
    ["ID", ({ move_id }) => shortId(move_id)],
    ["NAME", ({ name }) => name ?? "-"],
    ["STATE", (move) => paintState(terminal, move.state) + (move.dry_run ? " (dry run)" : "")],
    ["PHASE", ({ phase }) => phase],
    ["DONE", (move) => `${move.progress_pct.toFixed(1)}%`, "right"],
    ["SEGMENTS", (move) => countText(move.segments_total), "right"],
    ["ROWS", (move) => countText(move.rows_copied), "right"],
    ["SET ASIDE", (move) => countText(move.segments_poisoned), "right"],
    ["PLANNED", (move) => relativeTime(move.created_at, terminal.now())],
  ]);
}

/** What a move will do to which rows, in words. */
export function planText(move: MoveDetails): string {
  const lanes = move.lanes.slice(0, LANES_SHOWN_MAX);
  const rest = move.lanes_total - lanes.length;
  const table = layoutTable(lanes, [
    ["TABLE", (lane) => lane.table],
    ["BY", ({ shard_by }) => shard_by],
    ["LEAVES", ({ from }) => from],
    ["FOR", ({ to }) => to],
  ]);
  const kept = move.keep_source
    ? "Rows stay on the shards that they come from as well."
    : "Once all of it is copied and verified, rows are removed from the shards that they leave.";
  const size = move.surveyed
    ? `${counted(move.rows_estimated, "row")} in ${counted(move.segments_total, "segment")}.`
    : "How many rows that are is being looked at.";
  return [
    `By ${topologyText(move.from)} before, and by ${topologyText(move.to)} after:`,
    rest > 0 ? `${table}\n… and ${rest} more` : table,
    `${size} ${kept}`,
  ].join("\n\n");
}

function topologyText(topology: Topology): string {
  switch (topology.by) {
    case "tenant": {
      const count = Object.keys(topology.tenants).length;
      return `tenant (${count} named, everybody else on ${topology.default})`;
    }
    case "hash":
      return `hash (${topology.buckets.length} buckets)`;
    case "range":
      return `range (${topology.ranges.length} ranges)`;
  }
}

/** A page of segments. */
export function moveSegmentsText(terminal: Terminal, page: Page<MoveSegmentDocument>): string {
  return layoutPage(page, "There are no such segments.", [
    ["SEGMENT", (segment) => String(segment.segment_index), "right"],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["TABLE", ({ table_name }) => table_name],
    ["FROM", ({ from }) => from],
    ["TO", ({ to }) => to],
    ["KEYS", keysText],
    [
      "ROWS",
      ({ rows_copied, rows_estimated }) => `${countText(rows_copied)}/${countText(rows_estimated)}`,
      "right",
    ],
    ["ATTEMPTS", ({ attempts }) => String(attempts), "right"],
    ["WORKER", ({ worker_id }) => worker_id ?? "-"],
    ["NOTE", segmentNote],
  ]);
}

function keysText({ lower, upper }: MoveSegmentDocument): string {
  const from = lower === null ? "the first" : lower.join(", ");
  return `${from} … ${upper === null ? "the last" : upper.join(", ")}`;
}

/** What is to be known about a segment, in words. */
function segmentNote({ excluded, error, verification }: MoveSegmentDocument): string {
  const parts = [
    excluded === null ? "" : `excluded by ${excluded.by}: ${excluded.reason}`,
    excluded === null ? (errorText(error) ?? "") : "",
    verification?.ok === false
      ? `differs${verification.note === null ? "" : `: ${verification.note}`}`
      : "",
  ];
  return parts.filter((part) => part !== "").join("; ");
}

function comparedText({ ok, note }: NonNullable<MoveSegmentDetails["verification"]>): string {
  const found = ok === null ? "not yet" : ok ? "equal" : "differs";
  return note === null ? found : `${found} (${note})`;
}

/** A segment with all that is known of it. */
export function moveSegmentText(terminal: Terminal, segment: MoveSegmentDetails): string {
  const now = terminal.now();
  const { verification, error, step, running } = segment;
  const fields = layoutFields([
    ["segment", `${segment.segment_index} of ${segment.move_id} (${segment.segment_id})`],
    ["state", paintState(terminal, segment.state)],
    ["table", `${segment.table_name}, ${segment.from} → ${segment.to}`],
    ["keys", keysText(segment)],
    ["generation", String(segment.generation)],
    ["rows", `${countText(segment.rows_copied)} of about ${countText(segment.rows_estimated)}`],
    ["bytes", bytesText(segment.bytes_copied)],
    ["cursor", segment.cursor === null ? null : segment.cursor.join(", ")],
    ["position", segment.position],
    ["digest", segment.digest],
    ["attempts", `${segment.attempts}, ${segment.failures} failed since somebody looked`],
    [
      "next retry",
      segment.next_retry_at === null ? null : relativeTime(segment.next_retry_at, now),
    ],
    ["last error", errorText(error)],
    ["step", step === null || !running ? null : `${step} on ${segment.worker_id ?? "?"}`],
    ["compared", verification === null ? null : comparedText(verification)],
    ["note", segmentNote(segment) || null],
  ]);
  if (segment.runs.length === 0) return fields;
  const runs = layoutTable(segment.runs, [
    ["RUN", ({ run_id }) => shortId(run_id)],
    ["STEP", (run) => run.step],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["ASKED", ({ requested_at }) => relativeTime(requested_at, now)],
    ["FINISHED", ({ finished_at }) => relativeTime(finished_at, now)],
    ["ERROR", (run) => run.error?.message ?? ""],
  ]);
  return `${fields}\n\n${runs}`;
}
