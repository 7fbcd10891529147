import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Condition, keyOf, type Table } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { legalStates } from "../../work/command.ts";
import type { WorkRow } from "../../work/kind.ts";
import { type ShownKind, SHOWN_KINDS } from "../../work/kinds.ts";
import { TABLES } from "../../work/tables.ts";
import type { KindDocument, WorkDocument } from "../../work/work-api.ts";
import {
  type Call,
  expectedVersion,
  type Handlers,
  readAt,
  type Reply,
  submitted,
} from "../http/call.ts";
import { parseInput } from "../http/input-problems.ts";
import { listRows } from "../http/read-within.ts";

/** The kind with this name; refuses what there is not. */
function knownKind(name: string): ShownKind {
  const kind = SHOWN_KINDS.find((each) => each.name === name);
  if (kind !== undefined) return kind;
  const names = SHOWN_KINDS.map((each) => each.name).join(", ") || "there are none";
  throw new PawlError(
    "WORK_NOT_FOUND",
    `There is no kind of work ${JSON.stringify(name)} below /work: ${names}.`,
    { details: { kind: name } },
  );
}

/** The table of a kind's rows. */
export function tableOf({ work }: ShownKind): Table<WorkRow> {
  const tables: Readonly<Record<string, unknown>> = TABLES;
  return tables[work.table] as Table<WorkRow>;
}

async function knownRow(reader: Reader, kind: ShownKind, id: string): Promise<WorkRow> {
  const [row] = await reader.load(tableOf(kind), [[id]]);
  if (row !== undefined) return row;
  throw new PawlError(
    "WORK_NOT_FOUND",
    `There is no ${kind.name} ${JSON.stringify(id)}. \`pawl ${kind.name} list\` shows those there are.`,
    { details: { kind: kind.name, id } },
  );
}

function documentOf(kind: ShownKind, row: WorkRow): WorkDocument {
  const { surface, name } = kind;
  return {
    kind: name,
    id: String(keyOf(tableOf(kind), row)[0]),
    state: row.state,
    state_version: row.state_version,
    created_at: row.created_at,
    progress: surface.progress(row),
    details: surface.details(row),
    commands: surface.judged(row),
  };
}

function kindDocument({ name, surface }: ShownKind): KindDocument {
  const { about, states, input, commands } = surface;
  return {
    kind: name,
    about,
    states,
    input: z.toJSONSchema(input, { io: "input" }) as Record<string, Json>,
    commands: Object.entries(commands).map(([command, rule]) => ({
      command,
      states: legalStates(rule),
    })),
  };
}

function listKinds(call: Call<"listKinds">): Promise<Reply> {
  return readAt(call, async (reader) => ({
    answer: { items: SHOWN_KINDS.map(kindDocument) },
    pos: (await reader.head()).pos,
  }));
}

function listWork(call: Call<"listWork">): Promise<Reply> {
  const kind = knownKind(call.params.kind);
  const { status } = call.query;
  checkStates(kind, status ?? []);
  const where: Condition[] =
    status === undefined ? [] : [{ cell: "state", is: "in", values: status }];
  const list = { table: tableOf(kind), where, along: ["created_pos"], descending: true } as const;
  return listRows(call, list, (rows) => rows.map((row) => documentOf(kind, row)));
}

function checkStates({ name, surface }: ShownKind, wanted: readonly string[]): void {
  const unknown = wanted.find((state) => !Object.hasOwn(surface.states, state));
  if (unknown === undefined) return;
  const known = Object.keys(surface.states);
  throw new PawlError(
    "INPUT_INVALID",
    `A ${name} is never ${JSON.stringify(unknown)}; its states are ${known.join(", ")}.`,
    { details: { status: unknown, known } },
  );
}

function getWork(call: Call<"getWork">): Promise<Reply> {
  const kind = knownKind(call.params.kind);
  return readAt(call, async (reader) => ({
    answer: documentOf(kind, await knownRow(reader, kind, call.params.id)),
    pos: (await reader.head()).pos,
  }));
}

function createWork(call: Call<"createWork">): Promise<Reply> {
  const { name, surface } = knownKind(call.params.kind);
  const input = parseInput(surface.input, "body", call.body);
  return submitted(call, surface.create(input), (made) => ({
    message: `The ${name} ${made.id} was made.`,
    kind: name,
    ...made,
  }));
}

function changeWork(call: Call<"changeWork">): Promise<Reply> {
  const { kind, id, command: wanted } = call.params;
  const { name, surface } = knownKind(kind);
  const command = Object.hasOwn(surface.commands, wanted) ? surface.commands[wanted] : undefined;
  if (command === undefined) {
    const names = Object.keys(surface.commands).join(", ");
    throw new PawlError(
      "WORK_NOT_FOUND",
      `A ${name} has no command ${JSON.stringify(wanted)}: ${names}.`,
      { details: { kind, command: wanted } },
    );
  }
  const said = { id, reason: call.body.reason, ...expectedVersion(call) };
  return submitted(call, command.decide(said), (changed) => ({
    message: `The ${name} ${changed.id} is ${changed.state}.`,
    kind: name,
    ...changed,
  }));
}

/** What can be done with work of kinds that have no routes of their own. */
export const WORK_HANDLERS = {
  listKinds,
  listWork,
  createWork,
  getWork,
  changeWork,
} satisfies Handlers;
