import type { Command } from "commander";
import type { z } from "zod";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Operation } from "../../work/operation.ts";
import {
  type AnswerOf,
  OPERATIONS,
  type OperationName,
  type PartInput,
} from "../../work/operations.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { type Need, nameOrFullId, type OwnApi, withApi } from "./api.ts";
import { type Flag, type FlagTable, type FlagValues, omitUndefined } from "./options.ts";
import { note, print, type Terminal } from "./terminal.ts";

/** What sub-commands are about: how the first argument names one of a kind. */
export type CommandSubject = {
  /** The name of the argument, such as `backfill`. */
  readonly noun: string;
  /** What may be written there. */
  readonly description: string;
  /** The API's parameter that names one. */
  readonly param: string;
  /** What the API takes for a text that somebody wrote. */
  readonly find: (client: Client, text: string) => Promise<string>;
  /** Whether the argument may be left out. */
  readonly isOptional?: boolean;
};

/** The same subject, as an argument that may be left out. */
export function optional(subject: CommandSubject): CommandSubject & { readonly isOptional: true } {
  return { ...subject, isOptional: true };
}

/** How a sub-command ended. */
export type Outcome = {
  /** The result for machines. */
  document: unknown;
  /** The result for people; null where the failure says it all. */
  text: (() => string) | null;
  /** A line for people beside the result. */
  note?: string;
  /** Why the command fails after it has shown its result. */
  failure?: PawlError | null;
};

/** The outcome of a command that has a result, and may fail nevertheless. */
export function outcomeOf(
  document: unknown,
  text: (() => string) | null,
  failure: PawlError | null = null,
): Outcome {
  return { document, text, failure };
}

type RefOf<About> = About extends { readonly isOptional: true }
  ? string | undefined
  : About extends CommandSubject
    ? string
    : undefined;

type ArgumentOf<Text> = Text extends `${string}...${string}`
  ? string[]
  : Text extends `[${string}`
    ? string | undefined
    : string;

/** What was written on the command line. */
type Typed<Flags, About, Text> = {
  readonly cli: Cli;
  /** The name of the sub-command. */
  readonly name: string;
  /** The subject as it was written. */
  readonly subject: RefOf<About>;
  readonly argument: ArgumentOf<Text>;
  readonly flags: FlagValues<Flags>;
  /** The flags that are fields of the API: all but those that every request may have. */
  readonly fields: Omit<FlagValues<Flags>, "requestId" | "wait">;
};

/** What a sub-command runs with. */
export type CommandCall<Flags, About, Text = string, Prepared = undefined> = Typed<
  Flags,
  About,
  Text
> & {
  readonly terminal: Terminal;
  readonly api: OwnApi;
  readonly client: Client;
  /** The subject as the API takes it. */
  readonly ref: RefOf<About>;
  readonly prepared: Prepared;
};

/** A sub-command of whatever kind: made by `subcommand`, `operation` or what is built on them. */
export type Subcommand = (command: Command, cli: Cli) => void;

/** The sub-commands of a kind by their names, in the order of its help. */
export type Subcommands = Readonly<Record<string, Subcommand>>;

/** Adds the sub-commands of a kind. */
export function addSubcommands(parent: Command, cli: Cli, table: Subcommands): void {
  for (const [name, add] of Object.entries(table)) add(parent.command(name), cli);
}

type Spec<Flags, About, Text extends string, Prepared> = {
  description: string;
  about?: About;
  /** An argument behind the subject. */
  argument?: readonly [Text, description: string];
  flags?: Flags;
  /** What it needs when no server runs (default: rows, and a worker for --wait). */
  need?: Need | ((flags: FlagValues<Flags>) => Need);
  /** Refuses what cannot be meant, before anything is opened, and makes something of the rest. */
  prepare?: (typed: Typed<Flags, About, Text>) => Prepared;
  run: (call: CommandCall<Flags, About, Text, Prepared>) => Promise<Outcome>;
};

/** A sub-command with code of its own. */
export function subcommand<
  const Text extends string,
  Flags extends FlagTable = FlagTable,
  About extends CommandSubject | undefined = undefined,
  Prepared = undefined,
>(spec: Spec<Flags, About, Text, Prepared>): Subcommand {
  const { about, argument, flags = {} as Flags } = spec;
  return (command, cli) => {
    command.description(spec.description);
    if (about !== undefined) command.argument(argumentOf(about), about.description);
    if (argument !== undefined) command.argument(...argument);
    for (const flag of Object.values(flags)) addFlag(command, flag);
    command.action(
      act(async (options: GlobalOptions & Record<string, unknown>, ...args: unknown[]) => {
        const [subject, other] = about === undefined ? [undefined, args[0]] : args;
        const values = valuesOf(flags, options);
        const { requestId: _requestId, wait: _wait, ...fields } = values;
        // The parser knows no types; what a command declares is what its arguments and flags are.
        const typed = {
          cli,
          name: command.name(),
          subject,
          argument: other,
          flags: values,
          fields,
        } as Typed<Flags, About, Text>;
        const prepared = spec.prepare?.(typed) as Prepared;
        await withApi(cli, options, needOf(spec, typed.flags), async (api) => {
          const { terminal } = cli;
          const { client } = api;
          const named = typed.subject;
          const found = named === undefined ? undefined : await about?.find(client, named);
          const ref = found as RefOf<About>;
          show(terminal, await spec.run({ ...typed, terminal, api, client, ref, prepared }));
        });
      }),
    );
  };
}

function argumentOf({ noun, isOptional }: CommandSubject): string {
  return isOptional === true ? `[${noun}]` : `<${noun}>`;
}

function addFlag(command: Command, flag: Flag<unknown>): void {
  command.addOption(flag);
  if (flag.alias !== undefined) command.addOption(flag.alias);
}

type Values = Readonly<Record<string, unknown>>;

function valuesOf(flags: FlagTable, options: Values): Values {
  const values = Object.entries(flags).map(([name, flag]) => [name, options[flag.attributeName()]]);
  return omitUndefined(Object.fromEntries(values) as Values);
}

function needOf<Flags>(
  { need = "rows" }: { need?: Need | ((flags: FlagValues<Flags>) => Need) },
  flags: FlagValues<Flags>,
): Need {
  if (typeof need === "function") return need(flags);
  return "wait" in flags ? "work" : need;
}

function show(terminal: Terminal, outcome: Outcome): void {
  const { document, text, failure = null } = outcome;
  if (text !== null || terminal.json) print(terminal, document, text ?? (() => ""));
  if (outcome.note !== undefined) note(terminal, outcome.note);
  if (failure !== null) throw failure;
}

/** What an operation is sent: its body, or its query where it has none. */
type Sent<Name extends OperationName> = [PartInput<Name, "body">] extends [never]
  ? PartInput<Name, "query">
  : PartInput<Name, "body">;

/** Flags by the fields of the API that they are; `requestId` names the request. */
type FieldFlags<Name extends OperationName, Flags> = {
  [Field in keyof Flags]: Field extends keyof Sent<Name>
    ? Flag<Sent<Name>[Field]>
    : Field extends "requestId"
      ? Flag<string>
      : never;
};

type OperationSpec<Name extends OperationName, Flags, About, Text extends string> = Omit<
  Spec<Flags, About, Text, unknown>,
  "prepare" | "run" | "flags"
> & {
  /** Further parameters of the API, from the argument behind the subject. */
  params?: (argument: ArgumentOf<Text>) => object;
  /** The result for people. */
  text: (terminal: Terminal, answer: AnswerOf<Name>, subject: RefOf<About>) => string;
  /** A line for people beside the result. */
  note?: (answer: AnswerOf<Name>, api: OwnApi) => string;
} & (
    | { flags?: Flags & FieldFlags<Name, Flags>; fields?: undefined }
    | {
        flags?: Flags;
        /** What is sent, where that is not the flags by their names. */
        fields: (typed: Typed<Flags, About, Text>) => Sent<Name>;
      }
  );

/** A sub-command that is one call of the API: what its flags say is sent, and the answer shown. */
export function operation<
  Name extends OperationName,
  const Text extends string,
  Flags extends FlagTable = FlagTable,
  About extends CommandSubject | undefined = undefined,
>(name: Name, spec: OperationSpec<Name, Flags, About, Text>): Subcommand {
  const { fields, params, text, note: noteOf, ...rest } = spec;
  return subcommand<Text, Flags, About, object>({
    ...(rest as Spec<Flags, About, Text, object>),
    prepare: (typed) => (fields?.(typed) as object | undefined) ?? typed.fields,
    async run({ terminal, api, client, ref, argument, flags, prepared }) {
      const { requestId } = flags as { requestId?: string };
      const { about } = spec;
      const answer = await send(client, name, {
        params: { ...(about !== undefined && { [about.param]: ref }), ...params?.(argument) },
        [sentIn(name)]: prepared,
        idempotencyKey: requestId,
      });
      const outcome = { document: answer, text: () => text(terminal, answer, ref) };
      return noteOf === undefined ? outcome : { ...outcome, note: noteOf(answer, api) };
    },
  });
}

function sentIn(name: OperationName): "body" | "query" {
  const { body }: Operation = OPERATIONS[name];
  return body === undefined ? "query" : "body";
}

/** The call whose input was put together from a table; the table's types have checked its parts. */
export function send<Name extends OperationName>(
  client: Client,
  name: Name,
  input: object,
): Promise<AnswerOf<Name>> {
  return (client.call as (name: Name, input: object) => Promise<AnswerOf<Name>>)(name, input);
}

/** The server's own sentence about what it did. */
export function messageText(_terminal: Terminal, { message }: { message: string }): string {
  return message;
}

/** A kind whose things have names of their own, as commands name one of them. */
export function namedSubject<Param extends string>(
  noun: string,
  param: Param,
  list: (client: Client) => AsyncIterable<Record<Param | "name" | "state", string>>,
): CommandSubject {
  return {
    noun,
    description: `the ${noun}'s name, its id, or the short form of that`,
    param,
    find: (client, text) =>
      nameOrFullId(
        text,
        () => list(client),
        (item) => item[param],
      ),
  };
}

/** What is to be changed about a thing that is defined. */
type Change<Definition> = {
  /** The thing as the API shows it, with much that is no part of its definition. */
  current: { state_version: number };
  /** The fields of a definition. */
  body: z.ZodObject;
  changes: Partial<Definition>;
  /** An option that changes something, to name to somebody who gave none. */
  example: string;
  expectedStateVersion: number | undefined;
};

/**
 * The definition that takes the place of the current one: what is to change, and the rest as it is;
 * for the version that was looked at, unless the user names another.
 */
export function changedDefinition<Definition>(
  change: Change<Definition>,
): Definition & { expected_state_version: number } {
  const { current, body, changes, example, expectedStateVersion } = change;
  if (Object.keys(changes).length === 0) {
    throw new PawlError(
      "INPUT_INVALID",
      `Expected what to change, such as ${example}, got nothing.`,
    );
  }
  const fields = Object.keys(body.shape);
  const kept = Object.entries(current).filter(([key]) => fields.includes(key));
  return {
    ...(Object.fromEntries(kept) as Definition),
    ...changes,
    expected_state_version: expectedStateVersion ?? current.state_version,
  };
}

/** The sentence about a thing whose definition was to change. */
export function changedText(
  kind: string,
  changed: { name: string; state_version: number; accepted_event_id: string | null },
): string {
  const what = changed.accepted_event_id === null ? "is so already" : "was changed";
  return `${kind} ${changed.name} ${what} (version ${changed.state_version}).`;
}

/** Whether a definition is to act, as its flags say. */
export function enabledOf(flags: { enabled?: boolean; disabled?: boolean }): boolean | undefined {
  const { enabled, disabled } = flags;
  if (enabled !== true) return disabled === true ? false : undefined;
  if (disabled !== true) return true;
  throw new PawlError("INPUT_INVALID", "Expected --enabled or --disabled, got both.");
}

/** Null for the word `none`, which takes something back. */
export function orNull(text: string | undefined): string | null | undefined {
  return text === "none" ? null : text;
}

/** The parts of an option that may be repeated and may hold several, with commas. */
export function partsOf(texts: readonly string[]): string[] {
  return texts.flatMap((text) => text.split(",").map((part) => part.trim()));
}
