import type { SplitDocument, SplitStepDocument, CutoverTransition } from "../../work/split/api.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import { shortId } from "../base/api.ts";
import {
  counted,
  countText,
  errorText,
  type Field,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paint,
  paintState,
  type Terminal,
} from "../base/terminal.ts";

/** The phases in their order; a rollback leaves them from wherever it was. */
const PHASES = [
  "planning",
  "dual_write",
  "backfill",
  "tailing",
  "cutover_pending",
  "reversible",
  "completed",
] as const;

/** Tenants that are named. */
const TENANTS_NAMED_MAX = 5;

/** A terminal that is narrower shows the name of the present phase only. */
const NAMES_WIDTH = 95;

/** The phases as steps: those behind, the one it is in, and those to come. */
export function phasesText(
  terminal: Terminal,
  { phase, step }: Pick<SplitDocument, "phase" | "step">,
): string {
  if (phase === "rolled_back") return paintState(terminal, phase);
  const at = PHASES.indexOf(phase);
  const isOver = phase === "completed";
  const isNarrow =
    (terminal.stderr.columns ?? terminal.stdout.columns ?? NAMES_WIDTH) < NAMES_WIDTH;
  const steps = PHASES.map((name, index) => {
    const label = isNarrow && index !== at ? "" : ` ${name}`;
    if (index < at || isOver) return paint(terminal, "green", `✓${label}`);
    if (index > at) return paint(terminal, "dim", `·${label}`);
    const isFailed = step?.state === "FAILED";
    return paint(terminal, isFailed ? "red" : "cyan", `${isFailed ? "✗" : "▶"}${label}`);
  });
  return steps.join(isNarrow ? " " : "  ");
}

/** Some tenants by name, and how many there are besides. */
export function tenantsText(tenants: readonly string[]): string {
  const named = tenants.slice(0, TENANTS_NAMED_MAX).join(", ");
  const rest = tenants.length - TENANTS_NAMED_MAX;
  return rest > 0 ? `${named} and ${countText(rest)} more` : named;
}

/** A split as it is now, on a few lines: what `status` shows and `watch` draws. */
export function splitLines(terminal: Terminal, split: SplitDocument): string[] {
  const fields = statusFields(terminal, split);
  const tables = tableLines(split);
  return [
    `Split ${split.id}  ${split.source} → ${split.target}  ${tenantsText(split.tenants)}`,
    "",
    phasesText(terminal, split),
    "",
    ...layoutFields(fields).split("\n"),
    ...(tables.length === 0 ? [] : ["", ...tables]),
    "",
    split.next.text,
    ...split.next.commands.map(({ command, effect }) => `  pawl split ${command}: ${effect}`),
  ];
}

function statusFields(terminal: Terminal, split: SplitDocument): Field[] {
  const { backfill, tail, verification, write_pause_ms: pause, error } = split;
  const now = terminal.now();
  return [
    ["phase", `${paintState(terminal, split.phase)} (version ${split.state_version})`],
    ["step", stepText(split, now)],
    ["backfill", `${backfill.status}, ${counted(backfill.total_rows_copied, "row")} copied`],
    ["tail", tailText(tail)],
    ["verification", verification === null ? null : verificationText(verification)],
    ["write pause", pause === null ? null : `${pause.toFixed(1)} ms`],
    ["error", error === null ? null : `${errorText(error)} (${relativeTime(split.error_at, now)})`],
  ];
}

function stepText({ step }: SplitDocument, now: number): string | null {
  if (step === null) return null;
  const state = step.state === null ? "ended" : step.state.toLowerCase();
  const worker = step.worker_id === null ? "" : ` on ${step.worker_id}`;
  const attempt = step.attempt > 1 ? `, attempt ${step.attempt}` : "";
  const retry = step.retry_at === null ? "" : `, retry ${relativeTime(step.retry_at, now)}`;
  const lacks = step.lacks_worker ? ", no worker asks for it" : "";
  return `${step.n} ${step.step}, ${state}${worker}${attempt}${retry}${lacks}`;
}

function tailText({ status, lag_ms, lag_events }: SplitDocument["tail"]): string {
  if (lag_ms === null) return status;
  return `${status}, ${formatDuration(lag_ms)} and ${counted(lag_events ?? 0, "change")} behind`;
}

function verificationText({
  ok,
  finished,
  ranges,
  rows,
  note,
}: NonNullable<SplitDocument["verification"]>): string {
  const found = ok ? (finished ? "all equal" : "equal so far") : "differs";
  const said = note === null ? "" : ` (${note})`;
  return `${found}: ${counted(rows, "row")} in ${counted(ranges, "range")}${said}`;
}

function tableLines({ backfill }: SplitDocument): string[] {
  if (backfill.status === "pending") return [];
  const table = layoutTable(backfill.tables, [
    ["TABLE", (each) => each.table],
    ["ROWS", ({ rows }) => countText(rows), "right"],
    [
      "COPIED",
      ({ cursor, done }) =>
        done ? "all" : cursor === null ? "not begun" : `up to ${cursor.join(", ")}`,
    ],
  ]);
  return table.split("\n");
}

/** One line about a split, for those who read a log. */
export function splitLine({ phase, step, backfill, tail, wanted }: SplitDocument): string {
  const lag = tail.lag_ms === null ? "" : `, ${formatDuration(tail.lag_ms)} behind`;
  const doing = step === null || step.state === null ? "" : `, ${step.step} ${step.state}`;
  const wish = wanted === null ? "" : `, ${wanted} wanted`;
  return `${phase}${doing}, ${counted(backfill.total_rows_copied, "row")} copied${lag}${wish}`;
}

/** A page of splits. */
export function splitsText(terminal: Terminal, page: Page<SplitDocument>): string {
  return layoutPage(page, "There are no such splits; `pawl split plan` plans one.", [
    ["ID", ({ id }) => shortId(id)],
    ["PHASE", ({ phase }) => paintState(terminal, phase)],
    ["FROM", ({ source }) => source],
    ["TO", ({ target }) => target],
    ["TENANTS", ({ tenants }) => countText(tenants.length), "right"],
    ["ROWS", ({ backfill }) => countText(backfill.total_rows_copied), "right"],
    ["BEHIND", ({ tail }) => (tail.lag_ms === null ? "-" : formatDuration(tail.lag_ms)), "right"],
    ["PLANNED", ({ planned_at }) => relativeTime(planned_at, terminal.now())],
    ["TROUBLE", troubleText],
  ]);
}

function troubleText({ step, error_message }: SplitDocument): string {
  if (step?.state === "FAILED") return `${step.step} failed: ${error_message ?? ""}`;
  if (step?.lacks_worker === true) return "no worker";
  return (step?.retry_at ?? null) === null ? "-" : `retrying: ${error_message ?? ""}`;
}

/** A split with everything that is known of it, and its last steps. */
export function splitText(
  terminal: Terminal,
  split: SplitDocument,
  steps: readonly SplitStepDocument[],
): string {
  const checks = split.checks === null ? [] : [checksText(terminal, split.checks)];
  return [
    splitLines(terminal, split).join("\n"),
    layoutFields(planFields(terminal, split)),
    ...checks,
    ...(steps.length === 0 ? [] : [stepsText(terminal, steps)]),
  ].join("\n\n");
}

function planFields(terminal: Terminal, split: SplitDocument): Field[] {
  const now = terminal.now();
  const at = (instant: string | null) => (instant === null ? null : relativeTime(instant, now));
  return [
    ["description", split.description],
    ["planned", `${relativeTime(split.planned_at, now)} by ${split.planned_by}`],
    ["tables", split.tables.map(({ table, shard_by }) => `${table} (${shard_by})`).join(", ")],
    ["cuts over", split.auto_cutover ? "by itself" : "on request"],
    ["lag wanted", `at most ${formatDuration(split.lag_limit_ms)}`],
    [
      "fence",
      `waits ${formatDuration(split.fence_wait_ms)}, holds ${formatDuration(split.fence_hold_ms)}`,
    ],
    ["grace", formatDuration(split.grace_ms)],
    ["routing", routingText(split)],
    ["captured since", at(split.dual_write_started_at)],
    ["cut over", at(split.cutover_at)],
    ["finished", at(split.finished_at)],
    ["removed after", split.removed_at === null ? split.remove_after : null],
    ["removed", at(split.removed_at)],
    ["reason", split.reason],
  ];
}

function routingText(split: SplitDocument): string {
  const { routing_version_cutover: forth, routing_version_rollback: back } = split;
  const parts = [
    `version ${split.routing_version_at_start} when planned`,
    ...(forth === null ? [] : [`${forth} by the cutover`]),
    ...(back === null ? [] : [`${back} by the rollback`]),
  ];
  return parts.join(", ");
}

/** What was looked at, and what was found. */
export function checksText(
  terminal: Terminal,
  checks: NonNullable<CutoverTransition["checks"]>,
): string {
  return checks
    .map(({ check, ok, note }) => {
      const mark = ok ? paint(terminal, "green", "✓") : paint(terminal, "red", "✗");
      return `${mark} ${check}${note === null ? "" : `: ${note}`}`;
    })
    .join("\n");
}

function stepsText(terminal: Terminal, steps: readonly SplitStepDocument[]): string {
  const now = terminal.now();
  return layoutTable(steps, [
    ["STEP", ({ n }) => String(n), "right"],
    ["WHAT", ({ step }) => step],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["OUTCOME", ({ outcome }) => outcome ?? "-"],
    ["ASKED", ({ requested_at }) => relativeTime(requested_at, now)],
    ["FINISHED", ({ finished_at }) => relativeTime(finished_at, now)],
    ["RUN", ({ run_id }) => shortId(run_id)],
    ["NOTE", ({ reason, error }) => reason ?? error?.message ?? ""],
  ]);
}
