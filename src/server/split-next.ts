import { isReadyToCutOver } from "../controllers/split-step.ts";
import type { NextField } from "../core/api/shard-fields.ts";
import type { SplitDocument } from "../core/api/split-documents.ts";
import type { SplitRow, SplitWanted } from "../core/rows/split-rows.ts";
import type { SplitStep } from "../core/step-protocol.ts";

type Step = SplitDocument["step"];
type Command = NextField["commands"][number];

/** What a split does now, in words, and which commands make sense. */
export function nextOfSplit(split: SplitRow, step: Step): NextField {
  return { text: sentences(split, step), commands: commandsOf(split, step) };
}

function sentences(split: SplitRow, step: Step): string {
  const parts = [
    doing(split, step),
    split.wanted === null ? "" : wantedText(split),
    step?.lacks_worker === true
      ? `It waits for a worker that knows ${split.source} and ${split.target}.`
      : "",
    (step?.retry_at ?? null) === null
      ? ""
      : "The last attempt failed; it is tried again by itself.",
  ];
  return parts.filter((part) => part !== "").join(" ");
}

function isFailed(step: Step): boolean {
  return step?.state === "FAILED";
}

/** Whether the shards were compared and do not fit together: somebody has to make them do so. */
function isRefuted({ checks }: SplitRow, step: Step): boolean {
  const isOver = step?.step === "check" && step.state === "SUCCEEDED";
  return isOver && checks?.every(({ ok }) => ok) === false;
}

function failedText({ error }: SplitRow, step: Step): string {
  const why = error === null ? "" : `: ${error.message.replace(/\.$/, "")}`;
  return `The step ${step?.step ?? ""} failed${why}. Nothing goes on until it is tried again.`;
}

function doing(split: SplitRow, step: Step): string {
  const { source, target, lag_limit_ms, armed, remove_after, removed_at } = split;
  if (isFailed(step)) return failedText(split, step);
  const busyWith = isBusy(split) ? step?.step : null;
  if (busyWith === "discard") return `What was copied to ${target} is being discarded.`;
  if (busyWith === "finish") return `${target} serves; the way back is being taken down.`;
  if (busyWith === "cutover") return `The tenants are being handed over to ${target}.`;
  if (busyWith === "ddl") return "The schema is being changed on both shards.";
  switch (split.phase) {
    case "planning":
      return planningText(split);
    case "dual_write":
      return armed === 1
        ? `Changes are captured in ${source}; nothing is copied yet.`
        : `The capture of changes is being armed in ${source}.`;
    case "backfill":
      return `Rows are being copied from ${source} to ${target}.`;
    case "tailing":
      return (
        `What is written on ${source} is applied to ${target} until it is less than ` +
        `${lag_limit_ms} ms behind and all of it is verified.`
      );
    case "cutover_pending":
      return `${target} is caught up and verified, and kept so; ${source} still serves.`;
    case "reversible":
      return step?.step === "cutback"
        ? `The tenants are being handed back to ${source}.`
        : `${target} serves; ${source} is kept up to date, so that there is a way back.`;
    case "completed":
      if (removed_at !== null) return `It is complete, and the rows on ${source} are removed.`;
      return remove_after === null
        ? `It is complete; ${target} serves.`
        : `It is complete; the rows on ${source} are removed after ${remove_after}.`;
    case "rolled_back":
      return (
        `It was rolled back; ${source} serves. The plan can be run again from its beginning, or the ` +
        "same tenants planned anew."
      );
  }
}

function planningText({ checks, source, target }: SplitRow): string {
  if (checks === null || checks === undefined)
    return `The tables of ${source} and ${target} are being compared.`;
  const wrong = checks.filter(({ ok }) => !ok);
  if (wrong.length === 0) return `${source} and ${target} fit together; nothing was changed yet.`;
  const notes = wrong
    .map(({ check, note }) => note ?? check)
    .map((note) => note.replace(/\.$/, ""));
  return `${source} and ${target} do not fit together: ${notes.join("; ")}.`;
}

const WANTED_TEXT = {
  cutover: "A cutover is wanted",
  complete: "Its completion is wanted",
  rollback: "A rollback is wanted",
  ddl: "A change of the schema is wanted",
} as const;

/** The steps that come to what is wanted. */
const STEPS_OF_WANTED: Readonly<Record<SplitWanted, readonly SplitStep[]>> = {
  cutover: ["cutover"],
  complete: ["finish"],
  rollback: ["cutback", "discard"],
  ddl: ["ddl"],
};

function isBusy({ step_state }: SplitRow): boolean {
  return step_state === "RUNNING" || step_state === "QUEUED";
}

function wantedText(split: SplitRow): string {
  const { wanted, step } = split;
  if (wanted === null) return "";
  if (!isBusy(split)) return `${WANTED_TEXT[wanted]}.`;
  const isOnIt = step !== null && STEPS_OF_WANTED[wanted].includes(step);
  return `${WANTED_TEXT[wanted]}${isOnIt ? "" : "; the step under way comes to its end first"}.`;
}

function commandsOf(split: SplitRow, step: Step): Command[] {
  const { phase, checks, armed, wanted, backfill_status, committing } = split;
  const commands = commandsFor(split);
  const isArmed = armed === 1;
  const resume = isFailed(step) || isRefuted(split, step) ? [commands.resume] : [];
  const isFinishing = phase === "reversible" && !isArmed;
  const hasFailed = isFailed(step);
  // What a source has of the writes since the cutover is not to be trusted when its tail failed.
  const isCutOff = isFinishing || (phase === "reversible" && hasFailed);
  const mayGoBack = wanted !== "rollback" && committing === 0 && !isCutOff;
  const rollback = mayGoBack ? [commands.rollback] : [];
  if (wanted !== null) return [...resume, ...rollback];
  const ddl = isArmed ? [commands.ddl] : [];
  switch (phase) {
    case "planning": {
      const fits = checks?.every(({ ok }) => ok) === true;
      return [...resume, ...(fits && !hasFailed ? [commands.start] : []), ...rollback];
    }
    case "dual_write":
      return [...resume, ...(isArmed ? [commands.backfill] : []), ...ddl, ...rollback];
    case "backfill": {
      const again = backfill_status === "failed" ? [commands.backfill] : [];
      return [...resume, ...again, ...ddl, ...rollback];
    }
    case "tailing":
      return [...resume, ...ddl, ...rollback];
    case "cutover_pending":
      return [
        ...resume,
        ...(isReadyToCutOver(split) ? [commands.cutover] : []),
        ...ddl,
        ...rollback,
      ];
    case "reversible":
      return [...resume, commands.complete, ...ddl, ...rollback];
    case "completed":
      return resume;
    case "rolled_back":
      return [commands.start];
  }
}

/** A grace time in its largest unit. */
function graceText(ms: number): string {
  const units: [number, string][] = [
    [86_400_000, "day"],
    [3_600_000, "hour"],
    [60_000, "minute"],
    [1_000, "second"],
  ];
  const [unit, name] = units.find(([size]) => ms >= size) ?? [1, "millisecond"];
  const count = Math.round((ms / unit) * 10) / 10;
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}

/** What each command would do to this split. */
export function commandsFor(split: SplitRow) {
  const { source, target, tenants, grace_ms, phase } = split;
  const who = tenants.length === 1 ? "the tenant" : `${tenants.length} tenants`;
  const back =
    phase === "reversible"
      ? `hands ${who} back to ${source}, with all that was written since, and discards what is on ${target}`
      : `discards the copy on ${target} and disarms the capture; the routing stays as it is`;
  const command = (name: string, effect: string): Command => ({ command: name, effect });
  const arms = `arms the capture of changes and the fences in ${source}; nothing is copied yet`;
  const again = `runs the plan again: looks at ${source} and ${target} once more and ${arms}`;
  return {
    start: command("start-dual-write", phase === "rolled_back" ? again : arms),
    backfill: command(
      "run-backfill",
      `copies the rows of ${who} to ${target} and follows what is written from then on`,
    ),
    cutover: command(
      "cutover",
      `holds the writes of ${who} for a moment and hands them over to ${target}`,
    ),
    complete: command(
      "complete",
      `ends the way back; the rows of ${who} are removed from ${source} after ${graceText(grace_ms)}`,
    ),
    rollback: command("rollback", back),
    resume: command("resume", "tries the step that failed, or found something wrong, once more"),
    ddl: command("ddl", "changes the schema of both shards at the same place in the stream"),
  };
}
