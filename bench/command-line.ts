import { parseArgs } from "node:util";
import type { Benchmark } from "./benchmark.ts";

/** What `npm run bench` is asked for: benchmarks to run, or a text to print instead. */
export type Asked =
  | { benchmarks: readonly Benchmark[]; profile: string | undefined }
  | { usage: string }
  | { refusal: string };

/** Reads what follows `npm run bench --`: words that names begin with or hold, and options. */
export function readCommandLine(args: readonly string[], all: readonly Benchmark[]): Asked {
  const parsed = parsedArgs(args);
  if (typeof parsed === "string") return { refusal: parsed };
  const { values, positionals } = parsed;
  if (values.help === true) return { usage: usageOf(all) };
  for (const word of positionals) {
    if (all.some(({ name }) => name.includes(word))) continue;
    const names = all.map(({ name }) => name).join(", ");
    return { refusal: `No benchmark has ${JSON.stringify(word)} in its name. There are ${names}.` };
  }
  const benchmarks = all.filter(
    ({ name }) => positionals.length === 0 || positionals.some((word) => name.includes(word)),
  );
  return { benchmarks, profile: values.profile };
}

function parsedArgs(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: { profile: { type: "string" }, help: { type: "boolean", short: "h" } },
      allowPositionals: true,
    });
  } catch (error) {
    // Node's own sentence names the option, and goes on about positional arguments.
    const [sentence] = (error instanceof Error ? error.message : String(error)).split(". ");
    return `${sentence}. \`npm run bench -- --help\` shows what there is.`;
  }
}

function usageOf(all: readonly Benchmark[]): string {
  const width = Math.max(...all.map(({ name }) => name.length));
  return [
    "Usage: npm run bench -- [options] [words]",
    "",
    "Runs the benchmarks whose name has one of the words; all of them when there is none.",
    "",
    "Options:",
    "  --profile <folder>  every process writes its CPU profile there",
    "  -h, --help          shows this",
    "",
    "Benchmarks:",
    ...all.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`),
  ].join("\n");
}
