import type { Materialize, TaskContext } from "../define/automation-context.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { checkCommandOptions, type CommandOptions, runTaskCommand } from "./run-task-command.ts";

/** A command: a script for the shell, or a program with its arguments, which no shell reads. */
export type CommandLine = string | readonly string[];

/** How a command of `shell()` is run. */
export type ShellOptions = CommandOptions & {
  /** The shell that reads scripts; `/bin/sh` unless told. */
  shell?: string;
};

/** Arguments of a program, or a function that makes them for a task. */
export type Arguments = readonly string[] | ((context: TaskContext) => readonly string[]);

/** How a script of `python()` is run. */
export type PythonOptions = CommandOptions & {
  args?: Arguments;
  /** The interpreter, such as that of a virtual environment; `python3` unless told. */
  python?: string;
};

/** What `dbt()` runs. */
export type DbtOptions = CommandOptions & {
  /** What `--select` gets: models, tags, paths. */
  select: string | readonly string[];
  /** The command of dbt; `run` unless told. */
  command?: string;
  /** Variables for the models, besides those that say what the task is about. */
  vars?: (context: TaskContext) => Readonly<Record<string, Json>>;
  /** The folder with `dbt_project.yml`; the one it runs in unless told. */
  projectDir?: string;
  profilesDir?: string;
  target?: string;
  /** More arguments, such as `--full-refresh`. */
  args?: Arguments;
  /** The program; `dbt` unless told. */
  dbt?: string;
};

/**
 * Makes partitions by a command. A script stops at its first command that fails; with several lines,
 * too. Keys of partitions belong into a script as `"$PAWL_PARTITION"`, never pasted into its text.
 */
export function shell(
  command: CommandLine | ((context: TaskContext) => CommandLine),
  options: ShellOptions = {},
): Materialize {
  const subject = "shell()";
  checkCommandOptions(subject, options, ["shell"]);
  if (typeof command !== "function") wordsOf(subject, command, options);
  return async (context) => {
    const given = typeof command === "function" ? command(context) : command;
    return runTaskCommand(context, wordsOf(subject, given, options), options);
  };
}

function wordsOf(
  subject: string,
  command: CommandLine,
  { shell: interpreter = "/bin/sh" }: ShellOptions,
): readonly string[] {
  if (typeof command === "string" && command.trim() !== "") return [interpreter, "-ec", command];
  const isList = Array.isArray(command) && command.every((word) => typeof word === "string");
  if (typeof command !== "string" && isList && (command[0] ?? "") !== "") return command;
  throw new PawlError(
    "DEFINITION_INVALID",
    `${subject} needs a command, as a text for the shell or as a list of a program and its ` +
      `arguments, not ${JSON.stringify(command) ?? "nothing"}.`,
  );
}

/** Makes partitions by a Python script, by its path from the folder it runs in. */
export function python(script: string, options: PythonOptions = {}): Materialize {
  const subject = "python()";
  checkCommandOptions(subject, options, ["args", "python"]);
  if (typeof script !== "string" || script === "") {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} needs the path of a script, not ${JSON.stringify(script) ?? "nothing"}.`,
    );
  }
  const { python: interpreter = "python3", args = [], env, ...rest } = options;
  // What it prints is to be heard when it is printed, not when it has filled a buffer.
  const unbuffered = { ...rest, env: { PYTHONUNBUFFERED: "1", ...env } };
  return async (context) =>
    runTaskCommand(context, [interpreter, script, ...argumentsOf(args, context)], unbuffered);
}

const DBT_OPTIONS = [
  "select",
  "command",
  "vars",
  "projectDir",
  "profilesDir",
  "target",
  "args",
  "dbt",
];

/**
 * Makes partitions by models of dbt, which get what the task is about as variables: `partition`,
 * `partitions`, `window_start` and `window_end`, and the value in each dimension.
 */
export function dbt(options: DbtOptions): Materialize {
  const subject = "dbt()";
  checkCommandOptions(subject, options, DBT_OPTIONS);
  const selected = typeof options.select === "string" ? [options.select] : options.select;
  if (!Array.isArray(selected) || selected.length === 0 || selected.includes("")) {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} needs select, the models to run, not ` +
        `${JSON.stringify(options.select) ?? "nothing"}.`,
    );
  }
  const { dbt: program = "dbt", command = "run", args = [] } = options;
  const { projectDir, profilesDir, target } = options;
  return async (context) => {
    const words = [
      program,
      command,
      "--select",
      ...selected,
      "--vars",
      JSON.stringify({ ...varsOf(context), ...options.vars?.(context) }),
      ...(projectDir === undefined ? [] : ["--project-dir", projectDir]),
      ...(profilesDir === undefined ? [] : ["--profiles-dir", profilesDir]),
      ...(target === undefined ? [] : ["--target", target]),
      ...argumentsOf(args, context),
    ];
    return runTaskCommand(context, words, options);
  };
}

function varsOf({ partition, partitions, values, window }: TaskContext) {
  const times = window === null ? {} : { window_start: window.start, window_end: window.end };
  return { ...values, partition, partitions, ...times };
}

function argumentsOf(args: Arguments, context: TaskContext): readonly string[] {
  return typeof args === "function" ? args(context) : args;
}
