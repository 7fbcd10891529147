import { ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { lineMessage, LineReader, STREAM_LEVELS } from "../../external/command-output.ts";
import { levelFields } from "../../work/run/protocol.ts";
import { type LineKeeper, ownerOfLines } from "./console-lines.ts";
import { sharedPatch } from "./shared-patch.ts";

type Stream = keyof typeof STREAM_LEVELS;
/** Where a process writes. */
type Outputs = Record<Stream, Writable>;

/** The streams of a process by their numbers. */
const STREAMS: readonly [number, Stream][] = [
  [1, "stdout"],
  [2, "stderr"],
];

/** What of the options of a child matters here, as the platform hands them on. */
type SpawnOptions = { stdio?: unknown; detached?: boolean };

/**
 * From now on, what the child processes of tasks write to the output of this process (`stdio: "inherit"`) is
 * kept with the task, line by line, and shown if the task wants it to be. What a task reads itself is its own,
 * and a child that is detached may outlive it: these are left alone, as is what is started beside tasks.
 * Needs a captured console. Answers what ends it.
 */
export const captureChildren: (outputs: Outputs) => () => void = sharedPatch((outputs) => {
  const { prototype } = ChildProcess;
  // Below all of spawn, exec and fork, however they were imported.
  const found: unknown = Reflect.get(prototype, "spawn");
  if (typeof found !== "function") return () => undefined;
  const spawn = found;
  let isOver = false;
  function patched(this: ChildProcess, options: SpawnOptions): unknown {
    const keeper = isOver || options.detached === true ? null : ownerOfLines();
    const inherited = keeper === null ? new Map<number, Stream>() : takeInherited(options, outputs);
    const answer: unknown = Reflect.apply(spawn, this, [options]);
    for (const [index, stream] of inherited) {
      const readable = this.stdio[index];
      // As it is for whoever started it: nothing to read there.
      Reflect.set(this.stdio, index, null);
      if (index === 1) this.stdout = null;
      if (index === 2) this.stderr = null;
      if (keeper !== null && readable !== null && readable !== undefined && "read" in readable) {
        keepLines(readable, keeper, stream, outputs[stream]);
      }
    }
    return answer;
  }
  Reflect.set(prototype, "spawn", patched);
  return () => {
    // Who has put a function of their own over this one calls it still.
    isOver = true;
    if (Reflect.get(prototype, "spawn") === patched) Reflect.set(prototype, "spawn", spawn);
  };
});

/** Has a child write into pipes where it would write to the output of this process; says which these are. */
function takeInherited(options: SpawnOptions, outputs: Outputs): Map<number, Stream> {
  const { stdio } = options;
  const given: unknown[] = Array.isArray(stdio) ? [...stdio] : [stdio, stdio, stdio];
  const inherited = new Map<number, Stream>();
  for (const [index] of STREAMS) {
    const target = given[index];
    const found = STREAMS.find(
      ([number, name]) =>
        target === number || target === outputs[name] || (target === "inherit" && number === index),
    );
    if (found === undefined) continue;
    inherited.set(index, found[1]);
    given[index] = "pipe";
  }
  if (inherited.size > 0) options.stdio = given;
  return inherited;
}

function keepLines(from: Readable, keeper: LineKeeper, stream: Stream, shown: Writable): void {
  const reader = new LineReader(({ text, cut }) => {
    const plain = stripVTControlCharacters(text);
    if (plain.trim() === "") return;
    const isKept = keeper.log(lineMessage(plain, cut), levelFields(STREAM_LEVELS[stream]));
    if (keeper.output === "keep" && !isKept) shown.write(`${text}\n`);
  });
  from.on("data", (bytes: Buffer) => {
    if (keeper.output !== "keep") shown.write(bytes);
    reader.push(bytes);
  });
  from.once("end", () => reader.end());
  // A pipe that breaks is a child that ends, which its own events tell.
  from.on("error", () => undefined);
}
