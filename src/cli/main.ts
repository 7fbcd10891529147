import { enableCompileCache } from "node:module";

/** Runs the command line with these arguments and ends the process with the command's exit code. */
export async function main(args: readonly string[]): Promise<void> {
  // Reading our own sources is half of what a short command does, so what comes of it is kept.
  enableCompileCache();
  const { buildProgram } = await import("./program.ts");
  const { runCommand } = await import("./base/run-command.ts");
  await runCommand(args, buildProgram);
}
