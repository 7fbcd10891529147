import type { Argument, Command, Option } from "commander";
import type { Cli } from "../../src/cli/cli.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { cell, table } from "./markdown.ts";

/** The page about every command, made from the program itself. */
export async function cliReference(): Promise<string> {
  const sink = { write: () => true };
  // Nothing is run here, so nothing but the places for its output is asked for.
  const cli = { terminal: { stdout: sink, stderr: sink, now: () => 0 } } as unknown as Cli;
  const program = await buildProgram(cli);
  return `# Command line

Every command of \`pawl\`, as \`pawl <command> --help\` has it. [What is legal when](../commands.md) tells in which state
each does something, and [errors](../errors.md) what each exit code means.

${optionsTable(program, "option of every command")}

${program.commands.map((each) => commandText(each, "pawl", 2)).join("\n")}`;
}

/** Every command of a program, with its whole name. */
export function commandNames(command: Command, above = ""): string[] {
  const name = `${above}${command.name()}`;
  return [name, ...command.commands.flatMap((each) => commandNames(each, `${name} `))];
}

function commandText(command: Command, above: string, depth: number): string {
  const name = `${above} ${command.name()}`;
  const isGroup = command.commands.length > 0;
  const parts = [
    `${"#".repeat(depth)} ${name}`,
    sentence(command.description()),
    isGroup ? "" : `\`\`\`text\n${name} ${command.usage()}\n\`\`\``,
    command.registeredArguments.length === 0 ? "" : argumentsTable(command.registeredArguments),
    optionsTable(command, "option"),
    ...command.commands.map((each) => commandText(each, name, Math.min(depth + 1, 4))),
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function argumentsTable(args: readonly Argument[]): string {
  const rows = args.map((each) => [`\`${argumentText(each)}\``, cell(each.description)]);
  return table(["argument", "means"], rows);
}

function argumentText(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

function optionsTable(command: Command, head: string): string {
  const options = command.options.filter((each) => !each.hidden);
  if (options.length === 0) return "";
  return table(
    [head, "means"],
    options.map((each) => [`\`${each.flags}\``, cell(optionText(each))]),
  );
}

function optionText({ description, argChoices, defaultValue, mandatory }: Option): string {
  const choices = argChoices === undefined ? "" : ` One of ${argChoices.join(", ")}.`;
  const isTold = defaultValue !== undefined && defaultValue !== false && `${defaultValue}` !== "";
  const unless = isTold ? ` (${JSON.stringify(defaultValue)} unless given)` : "";
  return `${description}${unless}${mandatory ? " (required)" : ""}${choices}`;
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return cell(/[.!?]$/.test(first) || first === "" ? first : `${first}.`);
}
