import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import type { MoveDetails, PlanMoveBody } from "../../work/move/api.ts";
import type { Cli } from "../cli.ts";
import { omitUndefined } from "../base/omit-undefined.ts";
import {
  integerOption,
  PAGE,
  queryOption,
  REASON,
  requiredOption,
  segmentIndexOf,
  statesOption,
  switchOption,
  textOption,
  VERSION,
} from "../base/options.ts";
import { fullId, isIdLike, shortId } from "../base/short-id.ts";
import {
  addSubcommands,
  messageText,
  operation,
  send,
  type Subcommand,
  subcommand,
  type Subject,
} from "../base/subcommands.ts";
import { note } from "../base/terminal.ts";
import { changeLive, type LiveKind, type Wait, waitLive } from "../base/waiting.ts";
import {
  moveLabel,
  moveLine,
  moveLines,
  moveSegmentsText,
  moveSegmentText,
  movesText,
  planText,
} from "../text/move.ts";

const MOVE: Subject = {
  noun: "move",
  description: "the move's id, its short form, or the name of its definition",
  param: "move",
  async find(client, text) {
    if (!isIdLike(text)) return text;
    const newest = client.each("listMoves", { query: { limit: 200 } });
    return fullId(text, newest, ({ move_id }) => move_id);
  },
};

const LIVE: LiveKind<MoveDetails> = {
  subject: MOVE,
  idOf: ({ move_id }) => move_id,
  kept: "What was copied is kept",
  look: (client, move) => client.call("getMove", { params: { move } }),
  lines: moveLines,
  line: moveLine,
  mark: ({ state, phase }) => `${state} ${phase}`,
  isStuck: (move) => ["CANCELLED", "PAUSED"].includes(move.state) || isSetAside(move),
  failureOf,
};

/** Whether all that is left to copy was set aside. */
function isSetAside(move: MoveDetails): boolean {
  const isIdle = move.segments_pending === 0 && move.segments_active === 0;
  return move.state === "RUNNING" && move.surveyed && isIdle && move.segments_poisoned > 0;
}

function failureOf(move: MoveDetails): PawlError {
  const { move_id, state, reason, segments_poisoned: aside } = move;
  const why = reason === null ? "" : `: ${reason.replace(/\.$/, "")}`;
  const count = aside === 1 ? "1 segment was" : `${aside} segments were`;
  const what = isSetAside(move)
    ? `cannot go on: ${count} set aside; see \`pawl move inspect ${shortId(move_id)}\``
    : `is ${state}${why}`;
  return new PawlError("WORK_FAILED", `Move ${shortId(move_id)} ${what}.`, {
    details: { move_id, state, segments_poisoned: aside },
  });
}

/** Until a move is complete. */
const COMPLETE: Wait<MoveDetails> = { isDone: ({ state }) => state === "COMPLETE" };

/** Until what was asked for by then has been compared; also what is paused is compared. */
function verified(asked: number): Wait<MoveDetails> {
  return {
    isDone: ({ verifications, verify_waiting, check, state }) =>
      verifications >= asked &&
      verify_waiting === 0 &&
      !check.running &&
      (state !== "COMPLETE" || check.answers >= asked),
    isStuck: ({ state }) => state === "CANCELLED",
    isGood: ({ verify_failed, verify_waiting, check }) =>
      verify_failed === 0 && verify_waiting === 0 && check.ok !== false,
  };
}

const CHANGE = { reason: REASON, expected_state_version: VERSION };

/** A change of a move, and what waiting for it means; null where there is nothing to wait for. */
function change(
  description: string,
  changed: "startMove" | "pauseMove" | "resumeMove" | "cancelMove" | "verifyMove",
  wait: string | null,
  waitFor: (before: MoveDetails) => Wait<MoveDetails> = () => COMPLETE,
): Subcommand {
  return subcommand({
    description,
    about: MOVE,
    flags: wait === null ? CHANGE : { ...CHANGE, wait: switchOption("--wait", wait) },
    run: (call) => {
      const { reason, expected_state_version } = call.flags;
      const body = omitUndefined({ reason, expected_state_version });
      return changeLive(
        call,
        LIVE,
        (client, move) => send(client, changed, { params: { move }, body }),
        (_sent, before) => waitFor(before),
      );
    },
  });
}

const ON_END = "show it until it is complete, and fail when it cannot go on";

const SEGMENT = "its index, as `pawl move inspect` shows it";

const MOVES = {
  plan: subcommand({
    description: "plan to move rows between shards; says which rows leave where, copies nothing",
    argument: ["[name]", "the name of a move that is defined in code"],
    flags: {
      file: textOption(
        "--file <plan.json>",
        "a plan of its own: from, to, tables, strategy and so on",
      ),
      dryRun: switchOption("--dry-run", "only look how many rows that is, and wait for it"),
      wait: switchOption("--wait", "wait until it is known how many rows that is"),
      requestId: textOption(
        "--request-id <text>",
        "a name for the request; the same name never plans a second",
      ),
    },
    need: ({ dryRun, wait }) => (dryRun === true || wait === true ? "work" : "definitions"),
    prepare: ({ cli, argument, flags }) => wishOf(cli, argument, flags.file),
    async run({ cli, api, client, prepared, flags: { dryRun = false, wait, requestId } }) {
      const body = { ...prepared, dry_run: dryRun };
      const planned = await client.call("planMove", { body, idempotencyKey: requestId });
      const { move_id: move } = planned;
      if (!dryRun && wait !== true) {
        const document = await client.call("getMove", { params: { move } });
        const idle = api.isEmbedded
          ? "\nNo server is running; it is looked at while one does, see `pawl start`."
          : "";
        const next = `Then: pawl move start ${shortId(move)}`;
        const title = `Planned move ${moveLabel(document)}.`;
        return { document, text: () => `${title} ${planText(document)}${idle}\n${next}` };
      }
      note(cli.terminal, planned.message);
      return waitLive(cli, api, LIVE, move, {
        isDone: ({ surveyed, check }) => surveyed && (!dryRun || check.ok === true),
        text: (document) =>
          `${dryRun ? "Looked at" : "Planned"} move ${moveLabel(document)}. ${planText(document)}`,
      });
    },
  }),
  list: operation({
    description: "list moves, newest first",
    operation: "listMoves",
    flags: {
      status: statesOption("--status <states>", "only these, such as running,paused"),
      name: textOption("--name <name>", "only those of this definition"),
      ...PAGE,
    },
    text: movesText,
  }),
  status: operation({
    description: "show what a move does to which rows, how far it is and what can be done next",
    about: MOVE,
    operation: "getMove",
    text: (terminal, move) => [...moveLines(terminal, move), "", planText(move)].join("\n"),
  }),
  inspect: subcommand({
    description: "list the segments of a move, or show one with its runs",
    about: MOVE,
    argument: ["[segment]", "the index of a segment"],
    flags: {
      state: statesOption("--state <states>", "only these, such as poisoned,excluded"),
      active: queryOption("--active", "only those that are worked on"),
      ...PAGE,
    },
    async run({ terminal, client, ref: move, argument, flags: query }) {
      if (argument !== undefined) {
        const params = { move, segment_index: segmentIndexOf(argument) };
        const document = await client.call("getMoveSegment", { params });
        return { document, text: () => moveSegmentText(terminal, document) };
      }
      const document = await client.call("listMoveSegments", { params: { move }, query });
      return { document, text: () => moveSegmentsText(terminal, document) };
    },
  }),
  watch: subcommand({
    description: "show a move as it goes on, until it is complete or cannot go on by itself",
    about: MOVE,
    need: "work",
    run: ({ cli, api, ref }) => waitLive(cli, api, LIVE, ref, COMPLETE),
  }),
  start: change(
    "copy what was planned, and remove it from where it came from once verified",
    "startMove",
    ON_END,
  ),
  pause: change("stop a move; its segments keep how far they got", "pauseMove", null),
  resume: change("let a move go on", "resumeMove", ON_END),
  cancel: change("end a move for good; what was copied stays where it is", "cancelMove", null),
  verify: change(
    "compare what was copied once more, and look where all rows are",
    "verifyMove",
    "wait for what it finds, and fail when something differs",
    ({ verifications }) => verified(verifications + 1),
  ),
  retune: operation({
    description: "change how many segments are copied at once, or how fast",
    about: MOVE,
    operation: "retuneMove",
    flags: {
      segment_concurrency: integerOption("--concurrency <n>", "segments at once", 1, 64),
      rows_per_second: integerOption(
        "--rows-per-second <n>",
        "by all workers together; 0 for no limit",
        0,
      ),
      expected_state_version: VERSION,
    },
    fields: ({ flags }) =>
      flags.rows_per_second === 0 ? { ...flags, rows_per_second: null } : flags,
    text: messageText,
  }),
  retry: subcommand({
    description: "try a segment that was set aside once more, or all of them",
    about: MOVE,
    argument: ["[segment]", SEGMENT],
    flags: CHANGE,
    async run({ client, ref: move, argument, flags: body }) {
      const document =
        argument === undefined
          ? await client.call("retryMove", { params: { move }, body })
          : await client.call("retryMoveSegment", {
              params: { move, segment_index: segmentIndexOf(argument) },
              body,
            });
      return { document, text: () => document.message };
    },
  }),
  recopy: operation({
    description: "copy a segment again from its beginning",
    about: MOVE,
    argument: ["<segment>", SEGMENT],
    params: (text) => ({ segment_index: segmentIndexOf(text) }),
    operation: "recopyMoveSegment",
    flags: CHANGE,
    text: messageText,
  }),
  exclude: operation({
    description: "let a segment that was set aside stay where it is, on record",
    about: MOVE,
    argument: ["<segment>", SEGMENT],
    params: (text) => ({ segment_index: segmentIndexOf(text) }),
    operation: "excludeMoveSegment",
    flags: {
      reason: requiredOption(textOption("--reason <text>", "why it may stay, for the record")),
      expected_state_version: VERSION,
    },
    text: messageText,
  }),
};

/** Adds the commands about moves. */
export function addMoveCommands(move: Command, cli: Cli): void {
  addSubcommands(move, cli, MOVES);
}

function wishOf(
  cli: Cli,
  name: string | undefined,
  file: string | undefined,
): Pick<PlanMoveBody, "move" | "plan"> {
  if (file !== undefined && name === undefined) return { plan: planIn(cli, file) };
  if (file === undefined && name !== undefined) return { move: name };
  throw new PawlError(
    "INPUT_INVALID",
    "Give the name of a move that is defined in code, or --file with a plan, and not both.",
    { details: { name: name ?? null, file: file ?? null } },
  );
}

/** What is in the file; the server says what is wrong with it. */
function planIn({ cwd }: Cli, file: string): NonNullable<PlanMoveBody["plan"]> {
  try {
    return JSON.parse(readFileSync(resolve(cwd, file), "utf8")) as NonNullable<
      PlanMoveBody["plan"]
    >;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `--file: ${file} is no plan in JSON: ${why}.`, {
      details: { file },
      cause: error,
    });
  }
}
