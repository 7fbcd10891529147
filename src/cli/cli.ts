import type { Command } from "commander";
import { findProject, type ProjectFiles } from "./base/project.ts";
import { type Terminal, warn } from "./base/terminal.ts";
import type { ConfigField } from "../engine/config.ts";

/** What every command has around it. */
export type Cli = {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly terminal: Terminal;
  /** Aborts when the command is to end: at the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
};

/** The options that every command takes. */
export type GlobalOptions = {
  url?: string | undefined;
  token?: string | undefined;
  tokenFile?: string | undefined;
  config?: string | undefined;
};

/** A command's action: its options, those of every command among them, and its arguments. */
export function act(
  body: (options: never, ...args: never[]) => Promise<void>,
): (...all: unknown[]) => Promise<void> {
  // The parser knows no types; what each command declares is what its options make of the text.
  return (...all) => {
    const command = all.at(-1) as Command;
    return body(command.optsWithGlobals(), ...(command.processedArgs as never[]));
  };
}

/** The project that a command is about, configured with its flags. */
export function projectOf(
  cli: Cli,
  options: GlobalOptions,
  flags: Readonly<Partial<Record<ConfigField, unknown>>> = {},
): ProjectFiles {
  const { url, token, tokenFile: token_file, config } = options;
  if (token !== undefined) warnOfToken(cli);
  return findProject({
    cwd: cli.cwd,
    env: cli.env,
    configPath: config,
    flags: { url, token, token_file, ...flags },
  });
}

const warned = new WeakSet<Cli>();

/** Once a command: some look for their project more than once. */
function warnOfToken(cli: Cli): void {
  if (warned.has(cli)) return;
  warned.add(cli);
  warn(
    cli.terminal,
    "Every user of this machine can see the token after --token. Put it in PAWL_TOKEN or a file (--token-file).",
  );
}
