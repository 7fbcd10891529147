import { enableCompileCache } from "node:module";
import process from "node:process";
import type { Surroundings } from "./base/run-command.ts";

/** Runs the command line with these arguments and ends the process with the command's exit code. */
export async function main(args: readonly string[]): Promise<void> {
  // Reading our own sources is half of what a short command does, so what comes of it is kept.
  enableCompileCache();
  // As packaged: what went wrong is shown where it is in the sources.
  const { PAWL_DEBUG: debug = "" } = process.env;
  if (debug !== "" && debug !== "0") process.setSourceMapsEnabled(true);
  const { buildProgram } = await import("./program.ts");
  const { runCommand } = await import("./base/run-command.ts");
  await runCommand(args, (cli) => buildProgram(cli, args));
}

/** Runs the command line in the given surroundings instead of this process; answers its exit code. */
export async function mainWithin(
  surroundings: Surroundings,
  args: readonly string[],
): Promise<number> {
  const { buildProgram } = await import("./program.ts");
  const { exitCodeOf } = await import("./base/run-command.ts");
  return exitCodeOf(args, (cli) => buildProgram(cli, args), surroundings);
}
