import { type ErrorCode, PawlError } from "../kernel/errors.ts";
import type { Context, Decide, Decision } from "./decision.ts";
import type { Rows } from "./rows.ts";

/** Why a command is not offered now: it would be refused, or nothing would come of it. */
export type Hindrance = {
  /** A sentence for people. */
  readonly why: string;
  /** Set where the command is answered all the same, as when it is repeated. */
  readonly isIdle?: true;
  /** What the API says, where that is more than which states are legal; `text` follows the title. */
  readonly refusal?: Refusal;
};

type Refusal = {
  readonly text: string;
  readonly details: Record<string, unknown>;
  readonly code?: ErrorCode;
};

/** What holds in one state: legal, hindered always, or hindered by more than the state. */
export type When<Facts> = true | Hindrance | ((facts: Facts) => Hindrance | null);

/**
 * When a command is legal and what comes of it. The API, `next.commands`, the page and the documents
 * all read it here; so it imports nothing that a browser should not load.
 */
export type CommandRule<Facts, State extends string> = {
  /** As a refusal names it: "pausing". */
  readonly action: string;
  /** What comes of it, as it goes on from "it": "stops it; segments keep how far they got". */
  readonly effect: string | ((facts: Facts) => string);
  /** By state; one that is left out is illegal. Refusals list the legal ones in this order. */
  readonly when: { readonly [Each in State]?: When<Facts> };
};

/** The rules of a kind of work, by the names of the commands, in the order in which they are offered. */
export type CommandRules<Facts, State extends string> = {
  readonly [command: string]: CommandRule<Facts, State>;
};

/** Rules in which no command may leave out a state. */
export type Transitions<Facts, State extends string> = {
  readonly [command: string]: CommandRule<Facts, State> & {
    readonly when: { readonly [Each in State]: When<Facts> };
  };
};

/** A command is answered, but nothing comes of it. */
export function idle(why: string): Hindrance {
  return { why, isIdle: true };
}

/** A command is refused. */
export function refused(why: string, refusal?: Refusal): Hindrance {
  return refusal === undefined ? { why } : { why, refusal };
}

/** Legal in these states, whatever else is so. */
export function legal<State extends string>(
  ...states: readonly State[]
): { readonly [Each in State]?: true };
export function legal(...states: readonly string[]): { readonly [state: string]: true } {
  return Object.fromEntries(states.map((state): [string, true] => [state, true]));
}

/** What holds in each state that a rule names, in its order. */
function entriesOf<Facts, State extends string>({ when }: CommandRule<Facts, State>) {
  return Object.entries<When<Facts> | undefined>(when);
}

/** The states in which a command is not refused for the state alone. */
export function legalStates<Facts, State extends string>(
  rule: CommandRule<Facts, State>,
): string[] {
  return entriesOf(rule).flatMap(([state, entry]) => {
    if (entry === undefined) return [];
    return typeof entry !== "object" || entry.isIdle === true ? [state] : [];
  });
}

/** What stands in the way of a command now; null when nothing does. */
export function hindranceOf<Facts, State extends string>(
  rule: CommandRule<Facts, State>,
  state: State,
  facts: Facts,
): Hindrance | null {
  const entry = new Map(entriesOf(rule)).get(state);
  if (entry === true) return null;
  if (typeof entry === "function") return entry(facts);
  return (
    entry ?? { why: `Only while it is ${wordsOf(legalStates(rule))}; now it is ${wordOf(state)}.` }
  );
}

/** A state as people read it. */
export function wordOf(state: string): string {
  return state.toLowerCase().replaceAll("_", " ");
}

function wordsOf(states: readonly string[]): string {
  const words = states.map(wordOf);
  return [words.slice(0, -1).join(", "), ...words.slice(-1)]
    .filter((part) => part !== "")
    .join(" or ");
}

/** Why a command makes no sense now, in a sentence; null when it does. */
export function whyNot<Facts, State extends string>(
  rule: CommandRule<Facts, State>,
  state: State,
  facts: Facts,
): string | null {
  return hindranceOf(rule, state, facts)?.why ?? null;
}

/** What comes of a command. */
export function effectOf<Facts>(rule: CommandRule<Facts, string>, facts: Facts): string {
  return typeof rule.effect === "string" ? rule.effect : rule.effect(facts);
}

/** Every command, with what comes of it and why it makes no sense now; null when it does. */
export function judgedCommands<Facts, State extends string>(
  rules: CommandRules<Facts, State>,
  state: State,
  facts: Facts,
): { command: string; effect: string; why_not: string | null }[] {
  return Object.entries(rules).map(([command, rule]) => ({
    command,
    effect: effectOf(rule, facts),
    why_not: whyNot(rule, state, facts),
  }));
}

/** The commands that make sense now, each with what comes of it. */
export function offeredCommands<Facts, State extends string>(
  rules: CommandRules<Facts, State>,
  state: State,
  facts: Facts,
): { command: string; effect: string }[] {
  return Object.entries(rules).flatMap(([command, rule]) =>
    hindranceOf(rule, state, facts) === null ? [{ command, effect: effectOf(rule, facts) }] : [],
  );
}

/** What commands are about, as refusals speak of it. */
export type Subject<Row, State extends string> = {
  /** As a sentence about it begins: "Move 01J…". */
  title(row: Row): string;
  stateOf(row: Row): State;
  /** What a refusal gives to machines. */
  details(row: Row): Record<string, unknown>;
};

/** A kind of work that takes commands: how they name it, and what their rules may know of it. */
export type Commanded<Row, State extends string, Facts, Reference> = Subject<Row, State> & {
  /** The one that a command names; refuses what there is not. */
  known(rows: Rows, reference: Reference): Row;
  factsOf(row: Row, reference: Reference, rows: Rows, context: Context): Facts;
  /** What a refusal of its version gives to machines, where that is less. */
  versionDetails?(row: Row): Record<string, unknown>;
};

/** The version that a command is for; when it is given, it must be the current one. */
export type Expecting = { readonly expected_state_version?: number | undefined };

/** A rule with the decision that it guards. */
export type Command<Facts, State extends string, Said, Result> = CommandRule<Facts, State> & {
  readonly decide: (said: Said) => Decide<Result>;
};

/** Everything that can be asked of a kind of work, by name. */
export type CommandTable<Facts = never, State extends string = string> = {
  readonly [command: string]: Command<Facts, State, never, unknown>;
};

/**
 * Makes the commands about a kind of work. What is not there, another version and an illegal state are
 * refused before the decision is asked; that hears whether anything comes of it. `checkInput` refuses
 * what is wrong in whatever state, before it is found out that there is nothing to do.
 */
export function commandsAbout<
  Row extends { state_version: number },
  State extends string,
  Facts,
  Reference,
>(subject: Commanded<Row, State, Facts, Reference>) {
  return <Said extends Reference & Expecting, Result>(
    rule: CommandRule<Facts, State>,
    decide: (
      row: Row,
      said: Said,
      rows: Rows,
      context: Context,
      isIdle: boolean,
    ) => Decision<Result>,
    checkInput?: (row: Row, said: Said) => void,
  ): Command<Facts, State, Said, Result> => ({
    ...rule,
    decide: (said) => (rows, context) => {
      const row = subject.known(rows, said);
      checkVersion(subject, row, said);
      const facts = subject.factsOf(row, said, rows, context);
      const isIdle = checkLegal(subject, rule, row, facts, () => checkInput?.(row, said));
      return decide(row, said, rows, context, isIdle);
    },
  });
}

/** Refuses a version that is not the current one. */
export function checkVersion<Row extends { state_version: number }, State extends string>(
  subject: Subject<Row, State> & { versionDetails?(row: Row): Record<string, unknown> },
  row: Row,
  { expected_state_version: expected }: Expecting,
): void {
  const { state_version } = row;
  const at = `${subject.title(row)} is at state version ${state_version} (${subject.stateOf(row)})`;
  refuseOtherVersion(expected, state_version, at, {
    expected_state_version: expected,
    ...(subject.versionDetails?.(row) ?? subject.details(row)),
  });
}

/** Refuses a version that is not the current one; `at` says which that is. */
export function refuseOtherVersion(
  expected: number | undefined,
  current: number,
  at: string,
  details: Record<string, unknown>,
): void {
  if (expected === undefined || expected === current) return;
  const message = `${at}, not ${expected}. Look at it again, then decide.`;
  throw new PawlError("STATE_VERSION_MISMATCH", message, { details });
}

/** Refuses what is not legal now; answers whether nothing comes of what is. */
export function checkLegal<Row, State extends string, Facts>(
  subject: Subject<Row, State>,
  rule: CommandRule<Facts, State>,
  row: Row,
  facts: Facts,
  checkInput: () => void = () => {},
): boolean {
  const state = subject.stateOf(row);
  const states = legalStates(rule);
  if (states.includes(state)) checkInput();
  const hindrance = hindranceOf(rule, state, facts);
  if (hindrance === null || hindrance.isIdle === true) return hindrance !== null;
  const title = subject.title(row);
  const { refusal } = hindrance;
  if (refusal !== undefined) {
    const { code = "STATE_ILLEGAL", text, details } = refusal;
    throw new PawlError(code, `${title} ${text}`, { details });
  }
  throw new PawlError(
    "STATE_ILLEGAL",
    `${title} is ${state}; ${rule.action} is possible only while it is ${states.join(" or ")}.`,
    { details: { ...subject.details(row), legal: states } },
  );
}

/** The refusal of what there is not. */
export function notFound(
  code: ErrorCode,
  noun: string,
  reference: string,
  { field = noun, more = "" } = {},
): PawlError {
  return new PawlError(
    code,
    `There is no ${noun} ${JSON.stringify(reference)}. \`pawl ${noun} list\` shows those there are` +
      `${more}.`,
    { details: { [field]: reference } },
  );
}
