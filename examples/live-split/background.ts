import { type ChildProcess, spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

/*
 * Programs that the demonstration starts, each in a process group of its own, so that it and all that
 * it starts can be killed at once. None of them outlives this process.
 */

const HERE = fileURLToPath(new URL(".", import.meta.url));

/** A program that runs in the background. */
export type Background = {
  /** Asks it to end, and gives what it has said when it has. */
  stop(): Promise<string>;
  /** Ends it and all that it started, with no chance to put anything in order. */
  kill(): Promise<void>;
};

/** Starts a Node program in this folder; resolves when it has said something that means it is up. */
export async function startInBackground(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  isUp: string,
): Promise<Background> {
  const child = spawn(process.execPath, args, { cwd: HERE, env, detached: true });
  child.stdin.end();
  const killNow = (): void => killGroup(child);
  process.once("exit", killNow);
  const gone = new Promise<void>((resolve) => child.once("close", () => resolve()));
  let said = "";
  await new Promise<void>((resolve, reject) => {
    const hear = (part: Buffer): void => {
      said += part.toString();
      if (said.includes(isUp)) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    void gone.then(() => reject(new Error(`${args.join(" ")} ended: ${said}`)));
  });
  const saidBefore = said.length;
  return {
    async stop() {
      child.kill("SIGTERM");
      await gone;
      process.off("exit", killNow);
      return said.slice(saidBefore);
    },
    async kill() {
      process.off("exit", killNow);
      killNow();
      await gone;
    },
  };
}

/** Runs a Node program in this folder to its end and gives what it says. */
export async function run(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ code: number | null; said: string }> {
  const stdio: ["ignore", "pipe", "inherit"] = ["ignore", "pipe", "inherit"];
  const child = spawn(process.execPath, args, { cwd: HERE, env, stdio });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const said = await text(child.stdout);
  return { code: await ended, said };
}

function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  process.kill(-pid, "SIGKILL");
}
