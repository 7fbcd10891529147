import { StringDecoder } from "node:string_decoder";
import { stripVTControlCharacters } from "node:util";
import { z } from "zod";
import type { TaskContext, TaskResult } from "../define/automation-context.ts";
import { doNotRetry, retryAfter, skip } from "../define/errors.ts";
import type { Json } from "../kernel/canonical.ts";
import { JsonValue } from "../work/envelope.ts";
import { KEY_ADDITIONS_MAX, KeyAddition, METADATA_LENGTH_MAX } from "../work/run/protocol.ts";

/*
 * What a command prints. A line that begins with `::pawl ` and goes on with a JSON object says
 * something about the task; every other line is a line of its log. Commands may print anything and
 * any amount: only bounded pieces of it are ever held.
 */

/** What a line begins with that says something about the task. */
export const SAID_PREFIX = "::pawl ";

/** Longest line of the log; what is beyond it is cut. */
export const LINE_LENGTH_MAX = 8_000;
/** Longest line that says something: a checkpoint of 4 MiB, and what is around it. */
const SAID_LENGTH_MAX = 5 * 2 ** 20;
/** How much of the last lines goes into the error of a command that fails. */
const TAIL_LINES_MAX = 10;
const TAIL_LINE_LENGTH_MAX = 300;
const TAIL_LENGTH_MAX = 1_500;
/** How much of a line is shown that was not understood. */
const SHOWN_LENGTH_MAX = 200;

/** A line, and how many of its characters were cut. */
export type OutputLine = { text: string; cut: number };

/**
 * Cuts a stream of bytes into lines. As in a terminal, a carriage return starts the line anew, so
 * that a progress bar is one line and not thousands.
 */
export class LineReader {
  readonly #take: (line: OutputLine) => void;
  readonly #decoder = new StringDecoder("utf8");
  #text = "";
  #cut = 0;
  /** Whether a carriage return was the last character: unless the line ends, the next starts anew. */
  #isReturned = false;

  constructor(take: (line: OutputLine) => void) {
    this.#take = take;
  }

  push(bytes: Buffer): void {
    this.#read(this.#decoder.write(bytes));
  }

  /** The stream has ended; what has no line break behind it is a line as well. */
  end(): void {
    this.#read(this.#decoder.end());
    this.#endLine();
  }

  #read(text: string): void {
    let from = 0;
    for (;;) {
      const at = text.indexOf("\n", from);
      this.#append(text.slice(from, at === -1 ? text.length : at));
      if (at === -1) return;
      this.#endLine();
      from = at + 1;
    }
  }

  #append(piece: string): void {
    if (piece === "") return;
    if (this.#isReturned) this.#startAnew();
    this.#isReturned = piece.endsWith("\r");
    const text = this.#isReturned ? piece.slice(0, -1) : piece;
    const at = text.lastIndexOf("\r");
    if (at !== -1) this.#startAnew();
    const last = text.slice(at + 1);
    const start = (this.#text + last.slice(0, SAID_PREFIX.length)).slice(0, SAID_PREFIX.length);
    const lengthMax = start === SAID_PREFIX ? SAID_LENGTH_MAX : LINE_LENGTH_MAX;
    const room = Math.max(0, lengthMax - this.#text.length);
    this.#text += last.slice(0, room);
    this.#cut += Math.max(0, last.length - room);
  }

  #startAnew(): void {
    this.#text = "";
    this.#cut = 0;
  }

  #endLine(): void {
    const line = { text: this.#text.toWellFormed(), cut: this.#cut };
    this.#startAnew();
    this.#isReturned = false;
    if (line.text !== "") this.#take(line);
  }
}

/** The levels of the lines of the two streams. */
export const STREAM_LEVELS = { stdout: "info", stderr: "warn" } as const;

/** What is kept of a line, with a word on what was cut of it. */
export function lineMessage(plain: string, cut: number): string {
  return cut === 0 ? plain : `${plain}… (${cut} more characters were cut)`;
}

const Text = z.string().min(1);
const Fields = z.record(z.string(), JsonValue);

/** What a line may say; several things at once are fine. */
const Said = z
  .strictObject({
    progress: z.strictObject({
      done: z.number().nonnegative(),
      total: z.number().nonnegative(),
      note: z.string().optional(),
    }),
    metadata: Fields,
    log: z.strictObject({
      message: z.string(),
      level: z.enum(["debug", "info", "warn", "error"]).optional(),
      fields: Fields.optional(),
    }),
    checkpoint: JsonValue,
    add_partitions: z.array(KeyAddition).min(1).max(KEY_ADDITIONS_MAX),
    skip: Text,
    do_not_retry: Text,
    retry_after_ms: z.int().nonnegative(),
    partition_failed: z.strictObject({ partition: z.string(), error: Text }),
    partition_skipped: z.strictObject({ partition: z.string(), reason: Text }),
  })
  .partial();
type Said = z.infer<typeof Said>;

const SAID_NAMES = Object.keys(Said.shape);

/** How a command ended. */
export type CommandEnd = { code: number | null; signal: string | null };

/**
 * Passes on what a command says while it runs, and knows in the end what came of it. What it says
 * and cannot be kept, such as a line that is not understood, stops it: a partition that failed must
 * not count as made because of a misspelt word.
 */
export class CommandOutput {
  readonly #context: TaskContext;
  readonly #stop: () => void;
  readonly #tails: Record<"stdout" | "stderr", string[]> = { stdout: [], stderr: [] };
  #metadata: Readonly<Record<string, Json>> | null = null;
  #skip: string | null = null;
  #doNotRetry: string | null = null;
  #retryAfterMs: number | null = null;
  #fault: unknown = null;
  #checkpoint: { value: Json } | null = null;
  #saving: Promise<void> | null = null;

  /** `stop` ends the command. */
  constructor(context: TaskContext, stop: () => void) {
    this.#context = context;
    this.#stop = stop;
  }

  /** A reader of one of the two streams. */
  reader(stream: "stdout" | "stderr"): LineReader {
    return new LineReader((line) => {
      if (line.text.startsWith(SAID_PREFIX)) this.#hear(line);
      else this.#log(stream, line);
    });
  }

  /** Resolves once the last checkpoint is kept, or cannot be. */
  async settled(): Promise<void> {
    await this.#saving;
  }

  /** What the task comes to; throws what a function of the task would throw. */
  result({ code, signal }: CommandEnd, doNotRetryOn: readonly number[]): TaskResult {
    if (this.#fault !== null) throw this.#fault;
    if (code === 0 && this.#doNotRetry === null) {
      if (this.#skip !== null) throw skip(this.#skip);
      return this.#metadata === null ? {} : { metadata: this.#metadata };
    }
    const message = this.#failure(code, signal);
    if (this.#doNotRetry !== null || (code !== null && doNotRetryOn.includes(code))) {
      throw withoutStack(doNotRetry(message));
    }
    if (this.#retryAfterMs !== null) throw withoutStack(retryAfter(this.#retryAfterMs, message));
    throw withoutStack(new Error(message));
  }

  #log(stream: "stdout" | "stderr", { text, cut }: OutputLine): void {
    const plain = stripVTControlCharacters(text);
    if (plain.trim() === "") return;
    this.#context.log(lineMessage(plain, cut), { level: STREAM_LEVELS[stream] });
    const tail = this.#tails[stream];
    tail.push(plain.slice(0, TAIL_LINE_LENGTH_MAX).toWellFormed());
    if (tail.length > TAIL_LINES_MAX) tail.shift();
  }

  #hear({ text, cut }: OutputLine): void {
    const shown = text.slice(0, SHOWN_LENGTH_MAX).toWellFormed();
    try {
      if (cut > 0) throw new Error(`it has more than ${SAID_LENGTH_MAX} characters`);
      const said = saidBy(text.slice(SAID_PREFIX.length));
      this.#keep(said);
      this.#passOn(said);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const sentence = `The command printed ${JSON.stringify(shown)}, which cannot be taken`;
      this.#fail(withoutStack(new Error(`${sentence}: ${reason}`)));
    }
  }

  #keep(said: Said): void {
    if (said.metadata !== undefined) {
      const metadata = { ...this.#metadata, ...said.metadata };
      const { length } = JSON.stringify(metadata);
      if (length > METADATA_LENGTH_MAX) {
        throw new Error(`of metadata at most ${METADATA_LENGTH_MAX} characters of JSON are kept.`);
      }
      this.#metadata = metadata;
    }
    this.#skip = said.skip ?? this.#skip;
    this.#doNotRetry = said.do_not_retry ?? this.#doNotRetry;
    this.#retryAfterMs = said.retry_after_ms ?? this.#retryAfterMs;
    if (said.checkpoint !== undefined) {
      this.#checkpoint = { value: said.checkpoint };
      this.#saving ??= this.#save();
    }
  }

  #passOn(said: Said): void {
    const { progress, log, partition_failed: failed, partition_skipped: skipped } = said;
    if (progress !== undefined) {
      this.#context.progress(progress.done, progress.total, progress.note);
    }
    if (log !== undefined) {
      this.#context.log(log.message, { ...log.fields, level: log.level ?? "info" });
    }
    for (const { definition, keys } of said.add_partitions ?? []) {
      this.#context.addPartitions(definition, keys);
    }
    if (failed !== undefined) this.#context.partitionFailed(failed.partition, failed.error);
    if (skipped !== undefined) this.#context.partitionSkipped(skipped.partition, skipped.reason);
  }

  /** One after the other, and of those that came meanwhile only the newest. */
  async #save(): Promise<void> {
    try {
      while (this.#checkpoint !== null) {
        const { value } = this.#checkpoint;
        this.#checkpoint = null;
        await this.#context.checkpoint(value);
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#saving = null;
    }
  }

  #fail(fault: unknown): void {
    if (this.#fault !== null) return;
    this.#fault = fault;
    this.#stop();
  }

  #failure(code: number | null, signal: string | null): string {
    const end =
      code === null ? `was ended by ${signal ?? "a signal"}` : `ended with exit code ${code}`;
    const reason = this.#doNotRetry ?? this.#skip;
    const said = reason === null ? "" : ` It says: ${reason}`;
    const { stderr, stdout } = this.#tails;
    const [stream, lines] = stderr.length > 0 ? ["stderr", stderr] : ["stdout", stdout];
    const tail = lines.join("\n").slice(-TAIL_LENGTH_MAX).toWellFormed();
    const last = tail === "" ? "" : ` The last lines of its ${stream}:\n${tail}`;
    return `The command ${end}.${said}${last}`;
  }
}

function saidBy(text: string): Said {
  const parsed = Said.safeParse(jsonOf(text));
  if (parsed.success) {
    if (Object.keys(parsed.data).length > 0) return parsed.data;
    throw new Error(`it says nothing; it may have ${SAID_NAMES.join(", ")}.`);
  }
  const [issue] = parsed.error.issues;
  const path = issue?.path.join(".") ?? "";
  const known = issue?.code === "unrecognized_keys" ? `; it may have ${SAID_NAMES.join(", ")}` : "";
  throw new Error(`${path === "" ? "" : `${path}: `}${issue?.message ?? "not valid"}${known}.`);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`behind ${SAID_PREFIX.trim()} there must be one JSON object.`);
  }
}

/** Where in our code it was made says nothing about what the command did. */
function withoutStack(error: Error): Error {
  error.stack = "";
  return error;
}
