import type { Command } from "commander";
import type { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { CommandRule } from "../../work/command.ts";
import type { ShownKind } from "../../work/kinds.ts";
import type { WorkDocument } from "../../work/work-api.ts";
import type { Cli } from "../cli.ts";
import { type Api, fullId, idleText, shortId } from "../base/api.ts";
import { type Flag, option, PAGE, REASON, relativeTime, VERSION } from "../base/options.ts";
import {
  addSubcommands,
  type Outcome,
  outcomeOf,
  type Subcommand,
  subcommand,
  type CommandSubject,
} from "../base/subcommands.ts";
import {
  countText,
  layoutFields,
  layoutPage,
  paintState,
  type Terminal,
} from "../base/terminal.ts";
import { waitWithProgress } from "../base/waiting.ts";

/** Adds the commands about a kind of work that has them from what it is. */
export function addKindCommands(command: Command, cli: Cli, kind: ShownKind): void {
  command.description(kind.surface.about);
  addSubcommands(command, cli, subcommandsOf(kind));
}

function subcommandsOf(kind: ShownKind): Record<string, Subcommand> {
  const { name, surface } = kind;
  const subject: CommandSubject = {
    noun: name,
    description: `the ${name}'s id, or its short form`,
    param: "id",
    find: (client, text) =>
      fullId(
        text,
        client.each("listWork", { params: { kind: name }, query: { limit: 200 } }),
        ({ id }) => id,
      ),
  };
  return {
    create: subcommand({
      description: surface.about,
      flags: {
        ...inputFlags(surface.input),
        wait: option.wait("show how far it is, and fail when it does not end well"),
        requestId: option.requestId("never makes a second"),
      },
      async run({ cli, api, client, fields, flags: { wait, requestId } }) {
        const made = await client.call("createWork", {
          params: { kind: name },
          body: fields as Record<string, Json>,
          idempotencyKey: requestId,
        });
        if (wait === true) return waitFor(cli, api, kind, made.id);
        return outcomeOf(made, () => `${made.message}${idleText(api, "it goes on")}`);
      },
    }),
    list: subcommand({
      description: "list them, newest first",
      flags: { status: option.states("--status <states>", "only these"), ...PAGE },
      async run({ terminal, client, flags: query }) {
        const page = await client.call("listWork", { params: { kind: name }, query });
        return outcomeOf(page, () =>
          layoutPage(page, `There is no ${name}.`, [
            ["ID", ({ id }) => shortId(id)],
            ["STATE", ({ state }) => paintState(terminal, state)],
            ["DONE", progressText],
            ["CREATED", ({ created_at }) => relativeTime(created_at, terminal.now())],
          ]),
        );
      },
    }),
    status: subcommand({
      description: "show how far one is and what can be done next",
      about: subject,
      async run({ terminal, client, ref: id }) {
        const document = await client.call("getWork", { params: { kind: name, id } });
        return outcomeOf(document, () => documentText(terminal, document));
      },
    }),
    watch: subcommand({
      description: "show one as it goes on, until it has ended or waits for somebody",
      about: subject,
      need: "work",
      run: ({ cli, api, ref }) => waitFor(cli, api, kind, ref),
    }),
    ...Object.fromEntries(
      Object.entries(surface.commands).map(([command, rule]) => [
        command,
        changing(kind, subject, command, rule),
      ]),
    ),
  };
}

function changing(
  { name }: ShownKind,
  about: CommandSubject,
  command: string,
  rule: CommandRule<never, string>,
): Subcommand {
  const { effect, action } = rule;
  return subcommand({
    description: typeof effect === "string" ? `${action}: ${effect}` : action,
    about,
    flags: { reason: REASON, expected_state_version: VERSION },
    async run({ client, ref: id, flags: body }) {
      const params = { kind: name, id, command };
      const answer = await client.call("changeWork", { params, body });
      return outcomeOf(answer, () => answer.message);
    },
  });
}

/** A flag for each field of what making one takes; the server says what is wrong with its value. */
function inputFlags(input: z.ZodObject): Record<string, Flag<unknown>> {
  return Object.fromEntries(
    Object.entries(input.shape).map(([field, schema]) => {
      const { description = field } = schema as z.ZodType;
      const flags = `--${field.replaceAll("_", "-")} <value>`;
      return [field, option.text(flags, description).argParser(valueOf)];
    }),
  );
}

/** JSON where it is that, text otherwise. */
function valueOf(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

async function waitFor(cli: Cli, api: Api, kind: ShownKind, id: string): Promise<Outcome> {
  const { name, surface } = kind;
  const document = await waitWithProgress(cli, api, {
    noun: name,
    look: (client) => client.call("getWork", { params: { kind: name, id } }),
    progressOf: ({ progress: { done, failed, total } }) => ({
      done,
      failed,
      total: total ?? 0,
      ratePerSecond: null,
      etaMs: null,
      note: "",
    }),
    isSettled: ({ state }) => surface.states[state] !== "goes on",
    again: { kept: "What is done is kept", command: `pawl ${name} watch ${shortId(id)}` },
  });
  const isGood = surface.states[document.state] === "ended well";
  const failure = isGood
    ? null
    : new PawlError("WORK_FAILED", `The ${name} ${shortId(id)} is ${document.state}.`, {
        details: { kind: name, id, state: document.state },
      });
  return outcomeOf(document, () => documentText(cli.terminal, document), failure);
}

function progressText({ progress }: WorkDocument): string {
  const { done, failed, total, unit } = progress;
  const of = total === null ? "" : ` of ${countText(total)}`;
  return `${countText(done)}${of} ${unit}${failed === 0 ? "" : `, ${countText(failed)} failed`}`;
}

function documentText(terminal: Terminal, document: WorkDocument): string {
  const { kind, id, state, created_at, details, commands } = document;
  return layoutFields([
    [kind, id],
    ["state", paintState(terminal, state)],
    ["done", progressText(document)],
    ["created", relativeTime(created_at, terminal.now())],
    ...Object.entries(details).map(([field, value]): [string, string] => [
      field.replaceAll("_", " "),
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
    ...commands.map(({ command, effect, why_not }): [string, string | null] => [
      `pawl ${kind} ${command}`,
      why_not === null ? effect : null,
    ]),
  ]);
}
