import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { SingleBar } from "cli-progress";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Cli } from "../cli.ts";
import type { Api } from "./api.ts";
import { formatDuration, option, REASON, VERSION } from "./options.ts";
import {
  type CommandCall,
  type CommandSubject,
  type Outcome,
  outcomeOf,
  type Subcommand,
  subcommand,
} from "./subcommands.ts";
import { note, type Terminal, warn, withoutControls } from "./terminal.ts";

/** Short work is over soon; long work need not be polled as often. */
const POLL_MS_FIRST = 50;
const POLL_MS_MAX = 500;

/**
 * Polls until what was seen is settled. When the server of another command goes, this one takes
 * over. Rejects when the command is interrupted.
 */
async function poll<Seen>(
  cli: Cli,
  api: Api,
  look: (client: Client) => Promise<Seen>,
  isSettled: (seen: Seen) => boolean,
): Promise<Seen> {
  for (let pollMs = POLL_MS_FIRST; ; pollMs = Math.min(POLL_MS_MAX, pollMs * 1.2)) {
    const seen = await lookOverLoss(api, look);
    if (isSettled(seen)) return seen;
    await sleep(pollMs, undefined, { signal: cli.signal });
  }
}

async function lookOverLoss<Seen>(
  api: Api,
  look: (client: Client) => Promise<Seen>,
): Promise<Seen> {
  try {
    return await look(api.client);
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "SERVER_UNREACHABLE") throw error;
    await api.reopen();
    return look(api.client);
  }
}

/** How to see again what somebody stopped waiting for. */
type Again = {
  /** What an interruption leaves behind: `What was copied is kept`. */
  kept: string;
  /** The command that waits for it. */
  command: string;
};

type View<Seen> = { show(seen: Seen): void; close(): void };

async function watched<Seen>(
  cli: Cli,
  api: Api,
  view: View<Seen>,
  look: (client: Client) => Promise<Seen>,
  isSettled: (seen: Seen) => boolean,
  again: Again | null,
): Promise<Seen> {
  try {
    return await poll(cli, api, look, (seen) => {
      view.show(seen);
      return isSettled(seen);
    });
  } catch (error) {
    if (cli.signal.aborted && again !== null) {
      const where = api.isEmbedded
        ? `${again.kept}; it goes on when it is watched again, or with \`pawl start\``
        : "The work goes on; see it again";
      note(cli.terminal, `Interrupted. ${where}: ${again.command}`);
    }
    throw error;
  } finally {
    view.close();
  }
}

/** Work whose progress is shown as a bar until it is settled. */
type Counted<Seen> = {
  /** What is counted. */
  noun: string;
  look: (client: Client) => Promise<Seen>;
  progressOf: (seen: Seen) => ProgressState;
  isSettled: (seen: Seen) => boolean;
  again: Again | null;
};

/** Shows the progress of work until it is settled. Rejects when the command is interrupted. */
export function waitWithProgress<Seen>(cli: Cli, api: Api, work: Counted<Seen>): Promise<Seen> {
  const progress = openProgress(cli.terminal, work.noun);
  const view = {
    show: (seen: Seen) => progress.update(work.progressOf(seen)),
    close: () => progress.close(),
  };
  return watched(cli, api, view, work.look, work.isSettled, work.again);
}

/** A kind of work that is shown on a few lines while it goes on, and the operations that change it. */
export type LiveKind<Document, Change = never, Sent = never> = {
  subject: CommandSubject;
  idOf: (document: Document) => string;
  /** What an interruption leaves behind: `What was copied is kept`. */
  kept: string;
  look: (client: Client, ref: string) => Promise<Document>;
  /** The lines that `status` shows and `watch` draws. */
  lines: (terminal: Terminal, document: Document) => string[];
  /** The line for those who read a log, written at once when the mark is another. */
  line: (document: Document) => string;
  mark: (document: Document) => string;
  /** Whether it has ended, or cannot go on by itself. */
  isStuck: (document: Document) => boolean;
  /** Why work that nobody waits for any more counts as failed. */
  failureOf: (document: Document) => PawlError;
  change: (client: Client, operation: Change, id: string, body: object) => Promise<Sent>;
};

/** What is waited for. */
export type Wait<Document> = {
  isDone: (document: Document) => boolean;
  /** Whether that will not be any more (default: as the kind has it). */
  isStuck?: ((document: Document) => boolean) | undefined;
  /** Whether it ended well (default: when it is done). */
  isGood?: ((document: Document) => boolean) | undefined;
  /** The result for people (default: its lines). */
  text?: ((document: Document) => string) | undefined;
};

/** Shows work until what is waited for is so, or it cannot go on, and says whether that is well. */
export async function waitLive<Document>(
  cli: Cli,
  api: Api,
  kind: Omit<LiveKind<Document>, "change">,
  ref: string,
  wait: Wait<Document>,
): Promise<Outcome> {
  const { isDone, isStuck = kind.isStuck, isGood = isDone, text } = wait;
  const { terminal } = cli;
  const live = openLiveView(terminal);
  const view = {
    show: (document: Document) =>
      live.show(kind.lines(terminal, document), kind.line(document), kind.mark(document)),
    close: () => live.close(),
  };
  const document = await watched(
    cli,
    api,
    view,
    (client) => kind.look(client, ref),
    (seen) => isDone(seen) || isStuck(seen),
    { kept: kind.kept, command: `pawl ${kind.subject.noun} watch ${ref}` },
  );
  return outcomeOf(
    document,
    () => text?.(document) ?? kind.lines(terminal, document).join("\n"),
    isGood(document) ? null : kind.failureOf(document),
  );
}

/** A document that says what can be done next. */
type Guiding = { next: { commands: readonly { command: string; effect: string }[] } };

/** Changes work, says what that will do, and waits for it where that is wanted. */
export async function changeLive<
  Document extends Guiding,
  Change extends string,
  Sent extends { message: string },
>(
  call: Pick<CommandCall<unknown, CommandSubject>, "cli" | "api" | "ref" | "name"> & {
    flags: object;
  },
  kind: LiveKind<Document, Change, Sent>,
  operation: Change,
  body: object,
  waitFor: (sent: Sent, before: Document) => Wait<Document>,
): Promise<Outcome> {
  const { cli, api, name, flags } = call;
  const before = await kind.look(api.client, call.ref);
  const id = kind.idOf(before);
  const sent = await kind.change(api.client, operation, id, body);
  const effect = before.next.commands.find(({ command }) => command === name)?.effect;
  const said = `${sent.message}${effect === undefined ? "" : ` It ${effect}.`}`;
  if (!("wait" in flags)) return outcomeOf(sent, () => said);
  note(cli.terminal, said);
  return waitLive(cli, api, kind, id, waitFor(sent, before));
}

/** A sub-command that changes work, and may be waited for where it says what that means. */
export function liveChange<
  Document extends Guiding,
  Change extends string,
  Sent extends { message: string },
>(
  kind: LiveKind<Document, Change, Sent>,
  operation: Change,
  spec: {
    description: string;
    wait?: string;
    waitFor?: Wait<Document> | ((before: Document) => Wait<Document>);
  },
): Subcommand {
  const { description, wait, waitFor = { isDone: () => true } } = spec;
  const flags = { reason: REASON, expected_state_version: VERSION };
  return subcommand({
    description,
    about: kind.subject,
    flags: wait === undefined ? flags : { ...flags, wait: option.wait(wait) },
    run: (call) =>
      changeLive(call, kind, operation, call.fields, (_sent, before) =>
        typeof waitFor === "function" ? waitFor(before) : waitFor,
      ),
  });
}

/** How far some work is. */
export type ProgressState = {
  total: number;
  done: number;
  failed: number;
  ratePerSecond: number | null;
  etaMs: number | null;
  /** What else is to be said, such as why it does not go on; said at once when it is new. */
  note: string;
};

/** Something that shows how far work is, on standard error. */
export interface ProgressBar {
  update(state: ProgressState): void;
  close(): void;
}

/** Lines for people who read a log are no closer together than this. */
const LINE_MS = 2_000;

/** A bar on a terminal, a line now and then elsewhere, and only what keeps it waiting where machines read. */
export function openProgress(terminal: Terminal, noun: string): ProgressBar {
  if (terminal.stderr.isTTY === true) return bar(terminal, noun);
  return terminal.json ? notesOnly(terminal) : lineByLine(terminal, noun);
}

function bar(terminal: Terminal, noun: string): ProgressBar {
  const single = new SingleBar({
    format: `{bar} {percentage}%  {value}/{total} ${noun}{extra}`,
    barCompleteChar: "█",
    barIncompleteChar: "░",
    barsize: 30,
    hideCursor: true,
    clearOnComplete: false,
    stream: (terminal.stderr.raw ?? terminal.stderr) as NodeJS.WriteStream,
  });
  let isStarted = false;
  return {
    update(state) {
      const extra = withoutControls(extraOf(state));
      if (!isStarted) single.start(state.total, state.done, { extra });
      isStarted = true;
      single.setTotal(state.total);
      single.update(state.done, { extra });
    },
    close() {
      if (isStarted) single.stop();
    },
  };
}

function lineByLine(terminal: Terminal, noun: string): ProgressBar {
  let saidAt = terminal.now();
  let said = -1;
  const isNews = newsOf();
  return {
    update(state) {
      const isDue = terminal.now() - saidAt >= LINE_MS && state.done !== said;
      if (!isNews(state) && !isDue) return;
      saidAt = terminal.now();
      said = state.done;
      terminal.stderr.write(`${progressLine(state, noun)}\n`);
    },
    close: () => undefined,
  };
}

function notesOnly(terminal: Terminal): ProgressBar {
  const isNews = newsOf();
  return {
    update(state) {
      if (isNews(state)) warn(terminal, state.note);
    },
    close: () => undefined,
  };
}

/** Whether something is to be said of some work that was not said before: why it does not go on, say. */
function newsOf(): (state: ProgressState) => boolean {
  let before = "";
  return ({ note: said }) => {
    const isNew = said !== before;
    before = said;
    return isNew && said !== "";
  };
}

/** One line of progress: `120/365 partitions (33%), 2 failed, 14.0/s, ETA 18s`. */
export function progressLine(state: ProgressState, noun: string): string {
  const percent = state.total === 0 ? 0 : Math.floor((state.done / state.total) * 100);
  return `${state.done}/${state.total} ${noun} (${percent}%)${extraOf(state).replaceAll("  ", ", ")}`;
}

function extraOf({ failed, ratePerSecond, etaMs, note: added }: ProgressState): string {
  const parts = [
    failed > 0 ? `${failed} failed` : "",
    ratePerSecond === null ? "" : `${ratePerSecond.toFixed(1)}/s`,
    etaMs === null ? "" : `ETA ${formatDuration(etaMs)}`,
    added,
  ];
  return parts.map((part) => (part === "" ? "" : `  ${part}`)).join("");
}

/** Something that is shown while it changes, on standard error. */
export interface LiveView {
  /**
   * Shows it as it is now: all lines on a terminal, and elsewhere just the one, at once when `mark`
   * is another than before and else now and then.
   */
  show(lines: readonly string[], line: string, mark: string): void;
  close(): void;
}

/** Where nobody says how wide the terminal is. */
const WIDTH_DEFAULT = 80;

/** Puts the cursor so many lines up and clears everything from there on. */
const upAndClear = (lines: number): string => (lines === 0 ? "" : `\u001B[${lines}A\u001B[0J`);

/** A picture that is drawn over on a terminal, lines elsewhere, and nothing where machines read. */
export function openLiveView(terminal: Terminal): LiveView {
  if (terminal.stderr.isTTY === true) return picture(terminal);
  return terminal.json ? { show: () => undefined, close: () => undefined } : log(terminal);
}

function picture({ stderr }: Terminal): LiveView {
  const screen = stderr.raw ?? stderr;
  let drawn = 0;
  let shown = "";
  return {
    show(lines) {
      const width = (screen.columns ?? WIDTH_DEFAULT) - 1;
      // A line that wraps would be counted as one and leave its rest behind.
      const fitting = lines.map((line) => fit(line, width));
      const text = `${fitting.join("\n")}\n`;
      if (text === shown) return;
      screen.write(`${upAndClear(drawn)}${text}`);
      drawn = fitting.length;
      shown = text;
    },
    close() {
      screen.write(upAndClear(drawn));
      drawn = 0;
      shown = "";
    },
  };
}

function fit(line: string, width: number): string {
  const shown = withoutControls(line);
  const plain = stripVTControlCharacters(shown);
  return plain.length <= width ? shown : `${plain.slice(0, width - 1)}…`;
}

function log(terminal: Terminal): LiveView {
  let saidAt = Number.NEGATIVE_INFINITY;
  let said = "";
  let marked = "";
  return {
    show(_lines, line, mark) {
      const isDue = mark !== marked || terminal.now() - saidAt >= LINE_MS;
      if (!isDue || line === said) return;
      saidAt = terminal.now();
      said = line;
      marked = mark;
      terminal.stderr.write(`${line}\n`);
    },
    close: () => undefined,
  };
}
