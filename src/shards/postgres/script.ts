import type pg from "pg";

/** The rows of one statement of a script, each value as PostgreSQL's text. */
export type ResultRows = readonly (readonly (string | null)[])[];

/** What a script gave. */
export type ScriptResult = {
  /** Of each statement that gives rows, in order. */
  readonly results: readonly ResultRows[];
  /** The command tag of each statement, in order. */
  readonly tags: readonly string[];
  /** What `copy … to stdout` gave. */
  readonly copied: Buffer;
};

/** The messages of pg's connection that a script needs. */
type ScriptConnection = {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
};

/** Pieces in which rows are sent: each is one message, copied once. */
const PIECE_BYTES = 1 << 20;
const FIRST_BYTES = 1 << 16;

/**
 * Several statements in one message, one round trip; among them at most one `copy … to stdout` and
 * one `copy … from stdin`, whose rows go through as they are. pg calls the methods in the order of
 * the server's answers. Not for connections that pipeline.
 */
class Script {
  readonly #text: string;
  readonly #input: Buffer;
  readonly #resolve: (result: ScriptResult) => void;
  readonly #reject: (error: unknown) => void;
  readonly #results: (string | null)[][][] = [];
  readonly #tags: string[] = [];
  #copied = Buffer.alloc(0);
  #length = 0;

  constructor(
    text: string,
    input: Buffer,
    resolve: (result: ScriptResult) => void,
    reject: (error: unknown) => void,
  ) {
    this.#text = text;
    this.#input = input;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(connection: ScriptConnection): null {
    connection.query(this.#text);
    return null;
  }

  handleRowDescription(): void {
    this.#results.push([]);
  }

  handleDataRow(message: { fields: (string | null)[] }): void {
    this.#results.at(-1)?.push(message.fields);
  }

  handleCommandComplete(message: { text: string }): void {
    this.#tags.push(message.text);
  }

  handleCopyData(message: { chunk: Buffer }): void {
    // Copied at once: pg reads the next bytes into the buffer that this is a part of.
    const { chunk } = message;
    const needed = this.#length + chunk.length;
    if (needed > this.#copied.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * needed, FIRST_BYTES));
      this.#copied.copy(larger, 0, 0, this.#length);
      this.#copied = larger;
    }
    this.#length += chunk.copy(this.#copied, this.#length);
  }

  handleCopyInResponse(connection: ScriptConnection): void {
    for (let start = 0; start < this.#input.length; start += PIECE_BYTES) {
      connection.sendCopyFromChunk(this.#input.subarray(start, start + PIECE_BYTES));
    }
    connection.endCopyFrom();
  }

  handleEmptyQuery(): void {
    this.#tags.push("");
  }

  handlePortalSuspended(): void {
    // Only portals with a limit are suspended, and a script has none.
  }

  handleError(error: unknown): void {
    this.#reject(error);
  }

  handleReadyForQuery(): void {
    this.#resolve({
      results: this.#results,
      tags: this.#tags,
      copied: this.#copied.subarray(0, this.#length),
    });
  }
}

/** Runs statements without parameters as one message. */
export function runScript(
  client: pg.ClientBase,
  statements: readonly string[],
  input: Buffer = Buffer.alloc(0),
): Promise<ScriptResult> {
  return new Promise((resolve, reject) => {
    const script = new Script(statements.join(";\n"), input, resolve, reject);
    // pg takes whatever has `submit`; its types know of fewer messages than it sends.
    client.query(script as unknown as pg.Submittable);
  });
}
