import { createHmac, hash, randomBytes } from "node:crypto";
import process from "node:process";
import { monotonicFactory } from "ulid";
import { z } from "zod";
import type { Hash } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { hidePassword, nearMiss } from "../kernel/message-text.ts";
import { mailboxOf } from "../work/definition/spec.ts";
import { isTaskVariable } from "../kernel/task-variables.ts";
import type { Store } from "../store/store.ts";
import { SAID_LIMITS, type SaidLimits } from "./budgets.ts";
import type { DecisionCause } from "./commit.ts";
import type { Idempotency } from "./commit-loop.ts";

/** The port a server listens on when nothing else is said. */
export const DEFAULT_PORT = 7290;

const Id = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/, {
  error: "1 to 100 letters, digits, _ . - that start with a letter, a digit or _",
});

const DatabaseUrl = z
  .string()
  .regex(/^postgres(?:ql)?:\/\/./, { error: "a URL such as postgres://user@host/database" })
  .refine(isUnambiguous, {
    error: "a URL with the characters @ : / # ? of its password written as %40 %3A %2F %23 %3F",
  });

const ServerUrl = z.string().regex(/^https?:\/\/./, {
  error: "a URL such as http://127.0.0.1:7290",
});

const SmtpUrl = z.string().refine(isSmtpUrl, {
  error:
    "a URL such as smtp://user:password@host:587 or smtps://user:password@host:465, with the " +
    "characters @ : / # ? of the password written as %40 %3A %2F %23 %3F, and nothing behind it but ?tls=none",
});

const Mailbox = z.string().refine((text) => mailboxOf(text) !== null, {
  error: "an address such as pawl@example.com or Pawl <pawl@example.com>",
});

const fields = {
  /** The address to listen on; anything but loopback needs tokens. */
  host: z.string().min(1, { error: "a host name or an address" }).default("127.0.0.1"),
  port: z.int().min(0).max(65_535).default(DEFAULT_PORT),
  /** Names besides the loopback ones that requests may be sent to; none means any, with tokens. */
  hosts: z.array(z.string().min(1, { error: "names of hosts" })).default([]),
  /** Receivers of webhooks in the operator's own network, as `host` or `host:port`. */
  webhook_hosts: z.array(z.string().min(1, { error: "names of hosts" })).default([]),
  /** The server that sends e-mail, with its user and password; without it no webhook sends any. */
  smtp_url: SmtpUrl.nullable().default(null),
  /** Whom e-mail is from; it must be given with `smtp_url`. */
  email_from: Mailbox.nullable().default(null),
  /** Where people reach the page, for links in notifications; a loopback server knows by itself. */
  public_url: ServerUrl.nullable().default(null),
  /** The folder of the embedded store; a relative path starts at the project. */
  data_dir: z.string().min(1, { error: "the path of a folder" }).default(".pawl"),
  /** Keep the ledger in PostgreSQL instead of the embedded store. */
  database_url: DatabaseUrl.nullable().default(null),
  /** Take a PostgreSQL server that may lose acknowledged writes on power failure. */
  unsafe: z.boolean().default(false),
  /** Whether every request needs a token; null means as soon as the host is not loopback. */
  tokens_required: z.boolean().nullable().default(null),
  /** Most tasks that a worker runs at once. */
  concurrency: z.int().min(1).max(1_000).default(8),
  /** How long a worker may be silent before its tasks are given to another. */
  lease_ms: z.int().min(3_000).max(3_600_000).default(15_000),
  /** Most bytes of one checkpoint. */
  checkpoint_bytes_max: z.int().min(1_024).max(16_000_000).default(SAID_LIMITS.checkpointBytesMax),
  /** Most bytes of the checkpoints of one run. */
  checkpoint_bytes_run_max: z.int().min(1_024).default(SAID_LIMITS.checkpointBytesRunMax),
  /** Most bytes of the checkpoints of all unfinished runs. */
  checkpoints_bytes_max: z.int().min(1_024).default(SAID_LIMITS.checkpointsBytesMax),
  /** Most bytes of the log of one run. */
  log_bytes_run_max: z.int().min(1_024).default(SAID_LIMITS.logBytesRunMax),
  /** Most bytes of log lines that are kept in an hour. */
  log_bytes_hourly_max: z.int().min(1_024).default(SAID_LIMITS.logBytesHourlyMax),
  /** Most bytes of all logs; those of ended runs are dropped before that, the oldest first. */
  logs_bytes_max: z.int().min(1_024).default(SAID_LIMITS.logsBytesMax),
  /** How many days the log of an ended run is kept. */
  logs_kept_days: z.int().min(1).max(36_500).default(30),
  log_level: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  tenant_id: Id.default("default"),
  workspace_id: Id.default("default"),
  /** The server to talk to, instead of the one of this project. */
  url: ServerUrl.nullable().default(null),
  token: z.string().min(1, { error: "the text of a token" }).nullable().default(null),
  /** The file that holds the token; a relative path starts at the current folder. */
  token_file: z.string().min(1, { error: "the path of a file" }).nullable().default(null),
};

const ConfigSchema = z.strictObject(fields);

/** Everything that can be configured, with defaults filled in; frozen. */
export type Config = Readonly<z.infer<typeof ConfigSchema>>;

/** The name of a field of the configuration. */
export type ConfigField = keyof typeof fields;

const FIELD_NAMES = Object.keys(fields) as ConfigField[];

/** Where values come from; later ones win: file, file of variables, environment, flags. */
export type ConfigSources = {
  /** What the configuration file says, and what the file is called. */
  file?: { name: string; value: unknown } | undefined;
  /** Variables from a file of the project, and what the file is called. */
  envFile?: { name: string; env: Readonly<Record<string, string | undefined>> } | undefined;
  env: Readonly<Record<string, string | undefined>>;
  flags?: Readonly<Partial<Record<ConfigField, unknown>>> | undefined;
};

type Given = { value: unknown; origin: string; isOfFile?: true };

/**
 * Variables that are not called after their field. In a file beside the project they are the
 * application's: a ledger must not move into its database because that has an address.
 */
const SHARED_VARIABLES: Readonly<Record<string, ConfigField>> = { DATABASE_URL: "database_url" };

/** Variables of the environment that are Pawl's but no part of the configuration. */
const OTHER_VARIABLES = ["PAWL_DEBUG"];

/**
 * Puts the configuration together from file, environment and flags, checks it once and freezes it.
 * Throws CONFIG_INVALID with where the value came from, what was expected and what it is.
 */
export function loadConfig(sources: ConfigSources): Config {
  const given = new Map<ConfigField, Given>();
  if (sources.file !== undefined) readFile(given, sources.file);
  const { envFile } = sources;
  if (envFile !== undefined) {
    // Also an empty variable of the environment wins: it is how somebody says that there is none.
    const left = Object.entries(envFile.env).filter(([name]) => sources.env[name] === undefined);
    readEnvironment(given, Object.fromEntries(left), envFile.name);
  }
  readEnvironment(given, sources.env);
  for (const [name, value] of Object.entries(sources.flags ?? {})) {
    if (value === undefined) continue;
    given.set(knownField(name, "The flags"), { value, origin: flagOf(name) });
  }
  const values = Object.fromEntries([...given].map(([name, { value }]) => [name, value]));
  const parsed = ConfigSchema.safeParse(values);
  if (!parsed.success) throw invalid(given, parsed.error.issues);
  refuseOpenServer(parsed.data, given);
  refuseNamelessMail(parsed.data, given);
  refuseForeignServer(given);
  refuseForeignDatabase(given, sources.env);
  return Object.freeze(parsed.data);
}

/** A password with a character of its own meaning would be taken for a host, and end up in messages. */
function isUnambiguous(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && url.hash === "" && !url.pathname.includes("@");
}

function isSmtpUrl(text: string): boolean {
  const url = /^smtps?:\/\/./.test(text) ? URL.parse(text) : null;
  if (url === null || url.hostname === "" || !isUnambiguous(text)) return false;
  const isWhole = url.pathname === "" || url.pathname === "/";
  const isPlain = url.search === "?tls=none" && url.protocol === "smtp:";
  if (!isWhole || (url.search !== "" && !isPlain)) return false;
  const [user, password] = [unescaped(url.username), unescaped(url.password)];
  return user !== null && password !== null && (user === "") === (password === "");
}

function unescaped(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** What e-mail is sent with. */
export type MailSettings = {
  host: string;
  port: number;
  /** From the first byte, by STARTTLS before anything else is said, or not at all. */
  tls: "from_start" | "starttls" | "none";
  login: { user: string; pass: string } | null;
  from: { name: string; address: string };
};

/** What a configuration says about e-mail; null when it says that there is none. */
export function mailSettingsOf({ smtp_url, email_from }: Config): MailSettings | null {
  const url = smtp_url === null ? null : URL.parse(smtp_url);
  const from = email_from === null ? null : mailboxOf(email_from);
  if (url === null || from === null) return null;
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const isPlain = url.search !== "" || isLoopback(host);
  const isSecure = url.protocol === "smtps:";
  return {
    host,
    port: url.port === "" ? (isSecure ? 465 : 587) : Number(url.port),
    tls: isSecure ? "from_start" : isPlain ? "none" : "starttls",
    login:
      url.username === ""
        ? null
        : { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) },
    from,
  };
}

/** Whether an address can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Whether requests to a server with this configuration need a token. */
export function areTokensRequired(config: Config): boolean {
  return config.tokens_required ?? !isLoopback(config.host);
}

function readFile(given: Map<ConfigField, Given>, file: { name: string; value: unknown }): void {
  if (typeof file.value !== "object" || file.value === null || Array.isArray(file.value)) {
    throw new PawlError(
      "CONFIG_INVALID",
      `${file.name}: expected an object, got ${shown(file.value)}.`,
      { details: { path: "", file: file.name } },
    );
  }
  for (const [name, value] of Object.entries(file.value)) {
    const origin = `${file.name}, ${name}`;
    given.set(knownField(name, file.name), { value, origin, isOfFile: true });
  }
}

function readEnvironment(
  given: Map<ConfigField, Given>,
  env: Readonly<Record<string, string | undefined>>,
  file?: string,
): void {
  const originOf = (variable: string) => (file === undefined ? variable : `${file}, ${variable}`);
  for (const [variable, text] of Object.entries(env)) {
    // An empty variable is how a shell or a compose file says that there is none.
    if (text === undefined || text === "" || OTHER_VARIABLES.includes(variable)) continue;
    if (isTaskVariable(variable)) continue;
    const isShared = file === undefined && Object.hasOwn(SHARED_VARIABLES, variable);
    const shared = isShared ? SHARED_VARIABLES[variable] : null;
    if (!variable.startsWith("PAWL_") && shared === null) continue;
    const field = shared ?? knownVariable(variable, file ?? "The environment");
    // A name of our own says more than one that other programs read too.
    if (shared !== null && given.get(field)?.origin === originOf(variableOf(field))) continue;
    const value = valueOfText(field, text);
    const origin = originOf(variable);
    given.set(field, file === undefined ? { value, origin } : { value, origin, isOfFile: true });
  }
}

function knownField(name: string, place: string): ConfigField {
  const field = FIELD_NAMES.find((each) => each === name);
  if (field !== undefined) return field;
  throw unknown(`${place} has no field ${name}`, name, nearMiss(name, FIELD_NAMES), FIELD_NAMES);
}

function knownVariable(variable: string, place: string): ConfigField {
  const field = FIELD_NAMES.find((name) => variableOf(name) === variable);
  if (field !== undefined) return field;
  const variables = FIELD_NAMES.map(variableOf);
  const sentence = `${place} has ${variable}, which Pawl does not know`;
  throw unknown(sentence, variable, nearMiss(variable, variables), variables);
}

function unknown(
  sentence: string,
  name: string,
  meant: string | null,
  all: readonly string[],
): PawlError {
  const advice = meant === null ? `Known are ${all.join(", ")}.` : `Did you mean ${meant}?`;
  return new PawlError("CONFIG_INVALID", `${sentence}. ${advice}`, { details: { path: name } });
}

function variableOf(field: string): string {
  return `PAWL_${field.toUpperCase()}`;
}

function flagOf(field: string): string {
  return `--${field.replaceAll("_", "-")}`;
}

/** The text of a variable as a value of the field's own kind, where it is one. */
function valueOfText(field: ConfigField, text: string): unknown {
  const kind = ConfigSchema.shape[field].safeParse(undefined).data;
  const isYesOrNo = typeof kind === "boolean" || field === "tokens_required";
  if (isYesOrNo && /^(?:true|1)$/.test(text)) return true;
  if (isYesOrNo && /^(?:false|0)$/.test(text)) return false;
  if (Array.isArray(kind)) return text.split(",").map((part) => part.trim());
  if (typeof kind === "number" && /^-?\d+(?:\.\d+)?$/.test(text)) return Number(text);
  return text;
}

function invalid(given: Map<ConfigField, Given>, issues: readonly z.core.$ZodIssue[]): PawlError {
  const [issue] = issues;
  const path = String(issue?.path[0] ?? "");
  const found = given.get(path as ConfigField);
  return new PawlError(
    "CONFIG_INVALID",
    `${found?.origin ?? path}: expected ${expectation(issue)}, got ${shown(found?.value)}.`,
    { details: { path, issues: issues.map((each) => each.message) } },
  );
}

function expectation(issue: z.core.$ZodIssue | undefined): string {
  switch (issue?.code) {
    case "invalid_type":
      return issue.expected === "int" ? "a whole number" : `a ${issue.expected}`;
    case "invalid_value":
      return `one of ${issue.values.map(String).join(", ")}`;
    case "too_small":
      return issue.origin === "string" ? issue.message : `at least ${issue.minimum}`;
    case "too_big":
      return `at most ${issue.maximum}`;
    default:
      return issue?.message ?? "something else";
  }
}

function shown(value: unknown): string {
  // A URL may hold a password, and messages end up in logs.
  const safe = hidePassword(JSON.stringify(value) ?? String(value));
  return safe.length > 100 ? `${safe.slice(0, 100)}…` : safe;
}

/**
 * A file may have come with the project, to lead a user's token to somebody else's server: one that it
 * names gets a token only from the project's files.
 */
function refuseForeignServer(given: ReadonlyMap<ConfigField, Given>): void {
  const named = (field: ConfigField): Given | null => {
    const one = given.get(field);
    return one === undefined || one.value === null ? null : one;
  };
  const [url, token] = [named("url"), named("token")];
  const sent = token ?? named("token_file");
  if (url?.isOfFile !== true || sent === null || token?.isOfFile === true) return;
  throw new PawlError(
    "CONFIG_INVALID",
    `${sent.origin}: the token would go to ${shown(url.value)}, which only ${url.origin} names, and ` +
      "that may have come with the project. If it is the right server, name it with --url or PAWL_URL.",
    { details: { path: "url" } },
  );
}

/** The same of the password of PostgreSQL, which any database without one in its URL would be sent. */
function refuseForeignDatabase(
  given: ReadonlyMap<ConfigField, Given>,
  { PGPASSWORD: password = "" }: ConfigSources["env"],
): void {
  const url = given.get("database_url");
  if (url?.isOfFile !== true || typeof url.value !== "string" || password === "") return;
  if (URL.parse(url.value)?.password !== "") return;
  throw new PawlError(
    "CONFIG_INVALID",
    `PGPASSWORD: the password would go to ${shown(url.value)}, which only ${url.origin} names, and ` +
      "that may have come with the project. If it is the right database, name it with DATABASE_URL in " +
      "the environment, or write its password into the URL.",
    { details: { path: "database_url" } },
  );
}

function refuseOpenServer(config: Config, given: Map<ConfigField, Given>): void {
  if (config.tokens_required !== false || isLoopback(config.host)) return;
  const origin = given.get("tokens_required")?.origin ?? "tokens_required";
  throw new PawlError(
    "CONFIG_INVALID",
    `${origin}: expected true while the host is ${config.host}, got false. ` +
      "Only a server on a loopback address may do without tokens.",
    { details: { path: "tokens_required", host: config.host } },
  );
}

function refuseNamelessMail(
  { smtp_url, email_from }: Config,
  given: Map<ConfigField, Given>,
): void {
  if (smtp_url === null || email_from !== null) return;
  const origin = given.get("smtp_url")?.origin ?? "smtp_url";
  throw new PawlError(
    "CONFIG_INVALID",
    `${origin}: expected email_from beside it, got none. Say whom e-mail is from, such as ` +
      "PAWL_EMAIL_FROM=pawl@example.com.",
    { details: { path: "email_from" } },
  );
}

/** What the engine takes from the outside; the simulation hands in its own. */
export interface Environment {
  readonly hash: Hash;
  /** The version of the time zone database, such as `2026b`. */
  readonly zoneDatabase: string;
  /** A number from 0 up to 1. */
  random(): number;
  /** A fresh id that sorts by time. */
  newId(epochMs: number): string;
  /** A fresh secret that cannot be guessed. */
  newSecret(): string;
  /** Milliseconds of a clock that nobody sets, from whenever. */
  elapsedMs(): number;
  /** Runs the callback soon, after whatever input is waiting. */
  defer(callback: () => void): void;
  /** Runs the callback after so many milliseconds; answers a function that prevents it. */
  timer(ms: number, callback: () => void): () => void;
  /** Something an operator should know. */
  warn(message: string, details: Record<string, unknown>): void;
  /**
   * Whether each event is held against its schema before it is recorded. What came from outside was
   * checked when it came in, and events are made of that alone: tests see to it that this is so.
   */
  readonly checksEvents: boolean;
}

/** The machine's own clock, randomness and event loop. */
export function machineEnvironment(warn: Environment["warn"]): Environment {
  const ulid = monotonicFactory();
  return {
    hash: nodeHash,
    zoneDatabase: process.versions["tz"] ?? "unknown",
    random: Math.random,
    checksEvents: false,
    newId: (epochMs) => ulid(epochMs),
    newSecret: () => randomBytes(32).toString("hex"),
    elapsedMs: () => performance.now(),
    defer: (callback) => {
      // Twice: the second time round, requests that came while the first commit was written have been
      // read too, and share the next one.
      setImmediate(() => setImmediate(callback));
    },
    timer: (ms, callback) => {
      const timeout = setTimeout(callback, ms);
      timeout.unref();
      return () => clearTimeout(timeout);
    },
    warn,
  };
}

/** How a command comes in. */
export type SubmitOptions<Result> = {
  actor: DecisionCause["actor"];
  correlationId: string;
  idempotency?: Idempotency<Result> | undefined;
};

/** How the engine is opened. */
export type EngineOptions = {
  store: Store;
  tenantId: string;
  workspaceId: string;
  environment: Environment;
  leaseMs?: number;
  /** How much of what tasks say is kept. */
  saidLimits?: SaidLimits;
  /** Told how far the rows that an older version wrote have been made anew. */
  onRefold?: (pos: number, head: number) => void;
};

/** How long a worker may be silent before its tasks are taken back. */
export const LEASE_MS = 15_000;

/** How an engine is doing. */
export type EngineStatus = {
  pos: number;
  commits: number;
  queued_jobs: number;
  waiting_claims: number;
  results_refused: number;
  /** Lines that were not kept, and lines that were dropped again, since this server started. */
  log_lines_dropped: number;
  log_lines_expired: number;
  last_error: string | null;
  /** Entities whose controller failed an assertion, with the reason. */
  poisoned: Record<string, string>;
};

/** The hash functions of the platform. */
export const nodeHash: Hash = {
  sha256: (text) => hash("sha256", text, "hex"),
  hmacSha256: (secret, text) => createHmac("sha256", secret).update(text).digest(),
};
