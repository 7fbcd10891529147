import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import type { MoveDetails, MoveTransition, PlanMoveBody } from "../../work/move/api.ts";
import type { Cli } from "../cli.ts";
import { fullId, idleText, isIdLike, shortId } from "../base/api.ts";
import { option, PAGE, REASON, segmentIndexOf, VERSION } from "../base/options.ts";
import {
  addSubcommands,
  messageText,
  operation,
  send,
  outcomeOf,
  subcommand,
  type CommandSubject,
} from "../base/subcommands.ts";
import { note } from "../base/terminal.ts";
import { liveChange, type LiveKind, type Wait, waitLive } from "../base/waiting.ts";
import {
  moveLabel,
  moveLine,
  moveLines,
  moveSegmentsText,
  moveSegmentText,
  movesText,
  planText,
} from "../text/move.ts";

const MOVE: CommandSubject = {
  noun: "move",
  description: "the move's id, its short form, or the name of its definition",
  param: "move",
  async find(client, text) {
    if (!isIdLike(text)) return text;
    const newest = client.each("listMoves", { query: { limit: 200 } });
    return fullId(text, newest, ({ move_id }) => move_id);
  },
};

type MoveChange = "startMove" | "pauseMove" | "resumeMove" | "cancelMove" | "verifyMove";

const LIVE: LiveKind<MoveDetails, MoveChange, MoveTransition> = {
  subject: MOVE,
  idOf: ({ move_id }) => move_id,
  kept: "What was copied is kept",
  look: (client, move) => client.call("getMove", { params: { move } }),
  lines: moveLines,
  line: moveLine,
  mark: ({ state, phase }) => `${state} ${phase}`,
  isStuck: (move) => ["CANCELLED", "PAUSED"].includes(move.state) || isSetAside(move),
  failureOf,
  change: (client, name, move, body) => send(client, name, { params: { move }, body }),
};

/** Whether all that is left to copy was quarantined. */
function isSetAside(move: MoveDetails): boolean {
  const isIdle = move.segments_pending === 0 && move.segments_active === 0;
  return move.state === "RUNNING" && move.surveyed && isIdle && move.segments_poisoned > 0;
}

function failureOf(move: MoveDetails): PawlError {
  const { move_id, state, reason, segments_poisoned: aside } = move;
  const why = reason === null ? "" : `: ${reason.replace(/\.$/, "")}`;
  const count = aside === 1 ? "1 segment was" : `${aside} segments were`;
  const what = isSetAside(move)
    ? `cannot go on: ${count} quarantined; see \`pawl move inspect ${shortId(move_id)}\``
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

const ON_END = {
  wait: "show it until it is complete, and fail when it cannot go on",
  waitFor: COMPLETE,
};

const SEGMENT = "its index, as `pawl move inspect` shows it";

const MOVES = {
  plan: subcommand({
    description: "plan to move rows between shards; says which rows leave where, copies nothing",
    argument: ["[name]", "the name of a move that is defined in code"],
    flags: {
      file: option.text(
        "--file <plan.json>",
        "a plan of its own: from, to, tables, strategy and so on",
      ),
      dryRun: option.switch("--dry-run", "only look how many rows that is, and wait for it"),
      wait: option.wait("wait until it is known how many rows that is"),
      requestId: option.requestId("never plans a second"),
    },
    need: ({ dryRun, wait }) => (dryRun === true || wait === true ? "work" : "definitions"),
    prepare: ({ cli, argument, flags }) => wishOf(cli, argument, flags.file),
    async run({ cli, api, client, prepared, flags: { dryRun = false, wait, requestId } }) {
      const body = { ...prepared, dry_run: dryRun };
      const planned = await client.call("planMove", { body, idempotencyKey: requestId });
      const { move_id: move } = planned;
      if (!dryRun && wait !== true) {
        const document = await client.call("getMove", { params: { move } });
        const idle = idleText(api, "it is looked at");
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
  list: operation("listMoves", {
    description: "list moves, newest first",
    flags: {
      status: option.states("--status <states>", "only these, such as running,paused"),
      name: option.text("--name <name>", "only those of this definition"),
      ...PAGE,
    },
    text: movesText,
  }),
  status: operation("getMove", {
    description: "show what a move does to which rows, how far it is and what can be done next",
    about: MOVE,
    text: (terminal, move) => [...moveLines(terminal, move), "", planText(move)].join("\n"),
  }),
  inspect: subcommand({
    description: "list the segments of a move, or show one with its runs",
    about: MOVE,
    argument: ["[segment]", "the index of a segment"],
    flags: {
      state: option.states("--state <states>", "only these, such as poisoned,excluded"),
      active: option.query("--active", "only those that are worked on"),
      ...PAGE,
    },
    async run({ terminal, client, ref: move, argument, flags: query }) {
      if (argument !== undefined) {
        const params = { move, segment_index: segmentIndexOf(argument) };
        const document = await client.call("getMoveSegment", { params });
        return outcomeOf(document, () => moveSegmentText(terminal, document));
      }
      const document = await client.call("listMoveSegments", { params: { move }, query });
      return outcomeOf(document, () => moveSegmentsText(terminal, document));
    },
  }),
  watch: subcommand({
    description: "show a move as it goes on, until it is complete or cannot go on by itself",
    about: MOVE,
    need: "work",
    run: ({ cli, api, ref }) => waitLive(cli, api, LIVE, ref, COMPLETE),
  }),
  start: liveChange(LIVE, "startMove", {
    description: "copy what was planned, and remove it from where it came from once verified",
    ...ON_END,
  }),
  pause: liveChange(LIVE, "pauseMove", {
    description: "stop a move; its segments keep how far they got",
  }),
  resume: liveChange(LIVE, "resumeMove", { description: "let a move go on", ...ON_END }),
  cancel: liveChange(LIVE, "cancelMove", {
    description: "end a move for good; what was copied stays where it is",
  }),
  verify: liveChange(LIVE, "verifyMove", {
    description: "compare what was copied once more, and look where all rows are",
    wait: "wait for what it finds, and fail when something differs",
    waitFor: ({ verifications }) => verified(verifications + 1),
  }),
  retune: operation("retuneMove", {
    description: "change how many segments are copied at once, or how fast",
    about: MOVE,
    flags: {
      segment_concurrency: option.integer("--concurrency <n>", "segments at once", 1, 64),
      rows_per_second: option.integer(
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
    description: "try a quarantined segment once more, or all of them",
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
      return outcomeOf(document, () => document.message);
    },
  }),
  recopy: operation("recopyMoveSegment", {
    description: "copy a segment again from its beginning",
    about: MOVE,
    argument: ["<segment>", SEGMENT],
    params: (text) => ({ segment_index: segmentIndexOf(text) }),
    flags: CHANGE,
    text: messageText,
  }),
  exclude: operation("excludeMoveSegment", {
    description: "let a quarantined segment stay where it is, on record",
    about: MOVE,
    argument: ["<segment>", SEGMENT],
    params: (text) => ({ segment_index: segmentIndexOf(text) }),
    flags: {
      reason: option.required(option.text("--reason <text>", "why it may stay, for the record")),
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
