import { z } from "zod";
import { ERRORS, type ErrorCode, PawlError } from "../kernel/errors.ts";
import { canonicalJson } from "../kernel/canonical.ts";
import { Count, InstantText } from "./envelope.ts";

/** What a token may do: look, change, run tasks, manage tokens, push messages to sensors, change schemas of shards. */
export const VERBS = ["read", "write", "work", "admin", "push", "ddl"] as const;

/** One of the rights a token can have. */
export type Verb = (typeof VERBS)[number];

/** Where everything about definitions, backfills, runs and events lives. */
export const ORCHESTRATION_PATH = "/api/v1/orchestration";

/** Where workers talk to the server. */
export const WORKER_PATH = "/api/v1/worker";

/** Most bytes in a body, where the operation says nothing else: 64 KiB, for a few fields. */
export const BODY_BYTES_MAX = 65_536;

/** Most bytes in a body with lists or with something of the user's own: 1 MiB. */
export const DOCUMENT_BYTES_MAX = 1_048_576;

/** Most bytes in what a worker says of all that it holds or could take: 4 MiB. */
export const WORKER_BYTES_MAX = 4_194_304;

/** Most bytes in a body that carries many items: results, checkpoints and definitions, 16 MiB. */
export const LARGE_BODY_BYTES_MAX = 16_777_216;

/** Most values in the lists and objects of any body: going through them takes less than a second. */
const BODY_VALUES_MAX = 500_000;

/** Most values in a body of at most so many bytes; a text of nothing but `[],` has many more. */
export function bodyValuesMax(bytesMax: number): number {
  return Math.min(BODY_VALUES_MAX, Math.ceil(bytesMax / 10));
}

/**
 * One thing that the HTTP API can do. The server builds its routes and its OpenAPI document from
 * these, the client its calls, so that the two cannot drift apart.
 */
export type Operation = {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** With parameters in braces; each is one segment, percent-encoded. */
  readonly path: string;
  readonly summary: string;
  /** The right that a token needs; null for what anyone who reaches the server may ask. */
  readonly verb: Verb | null;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** Other names that fields of the body may have. */
  readonly aliases?: Aliases;
  /** How large the body may be; `BODY_BYTES_MAX` when it is left out. */
  readonly bodyBytesMax?: number;
  /**
   * Takes bytes as they are, of any type, and finds out who sent them from their signature where
   * there is no token. Repeats are told by what is in them, and answered with 200.
   */
  readonly rawBody?: true;
  readonly answer: z.ZodType;
  readonly status: 200 | 201 | 202;
  /** Makes something new, so it needs an idempotency key. */
  readonly creates?: true;
  /** The field of the body that may hold the idempotency key instead of the header. */
  readonly keyField?: string;
  /** Answers server-sent events when the query says `follow`, or nothing else. */
  readonly streams?: "when followed" | "only";
};

/** Whether an operation gives the first answer again under an idempotency key; what creates needs one. */
export function takesKey({ creates, method, verb, body }: Operation): boolean {
  if (creates === true) return true;
  return method !== "GET" && body !== undefined && (verb === "write" || verb === "ddl");
}

/** A text in quotes as structured headers write it: printable, with `\"` and `\\` escaped. */
const QUOTED = /^"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;

/** The key that an `Idempotency-Key` header holds: in quotes, as its standard says, or plain. */
export function keyOfHeader(header: string | undefined): string | undefined {
  const quoted = header === undefined ? undefined : QUOTED.exec(header)?.[1];
  return quoted === undefined ? header : quoted.replace(/\\(["\\])/g, "$1");
}

/** Most items on a page of a list. */
export const PAGE_LIMIT_MAX = 200;

/** Items on a page of a list when the request does not say. */
export const PAGE_LIMIT_DEFAULT = 50;

/** How long a read waits for the position it asks for when the request does not say. */
export const READ_TIMEOUT_MS_DEFAULT = 5_000;

/** A yes or no in a query; the bare name means yes. */
export const QueryFlag = z
  .enum(["true", "false", ""])
  .transform((text) => (text === "" ? "true" : text))
  .pipe(z.enum(["true", "false"]));

/** A position in the ledger, also before the first event. */
export const PosText = z.coerce.number<number>().int().min(0);

/** Several values in one query parameter, separated by commas. */
export function commaList<Item extends z.ZodType<string, string>>(item: Item) {
  return z
    .string()
    .transform((text) => text.split(","))
    .pipe(z.array(item).min(1).max(100));
}

/** An instant in a query: a day, or a date and time with its offset. */
export const QueryInstant = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], {
    error: "must be a day or an instant such as 2026-01-31T08:00:00Z",
  })
  .transform((text) => new Date(text).toISOString())
  .pipe(z.iso.datetime());

/** What every read takes: how new the rows must be, and how long to wait for that. */
export const readQuery = {
  /** Answer only from rows that have reached this position. */
  min_pos: PosText.optional(),
  /** Answer only from rows that hold this event. */
  wait_for_event_id: z.string().min(1).max(100).optional(),
  timeout_ms: z.coerce.number<number>().int().min(0).max(30_000).default(READ_TIMEOUT_MS_DEFAULT),
  /** Accepted and always true: rows are as new as the ledger. */
  fresh: QueryFlag.optional(),
};

/** What every list takes besides. */
export const pageQuery = {
  ...readQuery,
  limit: z.coerce.number<number>().int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
  /** Where the page before ended: its `next_cursor`. */
  cursor: z.string().min(1).max(4_000).optional(),
};

/** Bounds in time for lists of things that have a time: `since` belongs to it, `until` does not. */
export const timeQuery = { since: QueryInstant.optional(), until: QueryInstant.optional() };

/** The version that a change is for: refused when it has moved on. `If-Match` says the same. */
export const expectation = { expected_state_version: z.int().min(1).optional() };

/** The same in the query of a change that has no body. */
export const expectationQuery = {
  expected_state_version: z.coerce.number<number>().int().min(1).optional(),
};

/**
 * What the query of an operation may hold: also the version of what a body changes, where that may
 * be said in the body.
 */
export function queryOf({ body, query }: Operation): z.ZodObject | undefined {
  const isInBody = query === undefined && body !== undefined && isConditional({ body });
  return isInBody ? VERSION_QUERY : query;
}

/** Whether a change can be made to depend on the version of what it changes. */
export function isConditional({ body, query }: Pick<Operation, "body" | "query">): boolean {
  const fields = body instanceof z.ZodObject ? { ...body.shape } : { ...query?.shape };
  return "expected_state_version" in fields;
}

const VERSION_QUERY = z.strictObject(expectationQuery);

/** Why somebody changes something, for the record. */
export const Reason = z.string().min(1).max(1_000).optional();

/** What a change of state takes. */
export const TransitionBody = z.strictObject({ ...expectation, reason: Reason });

/** A page of a list. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.strictObject({
    items: z.array(item),
    /** Where the next page starts; null at the end. */
    next_cursor: z.string().nullable(),
    /** The position that the page reflects. */
    pos: z.int().nonnegative(),
  });
}

/** The answer to every change: when and where it went into the ledger. */
export const accepted = {
  message: z.string(),
  /** The first event that the change recorded; null when there was nothing to record. */
  accepted_event_id: z.string().nullable(),
  accepted_pos: z.int().nonnegative(),
  accepted_at: z.string(),
  correlation_id: z.string(),
};

/** The fields that every change answers. */
export const Accepted = z.strictObject(accepted);
export type Accepted = z.infer<typeof Accepted>;

/** The media type of every error answer. */
export const PROBLEM_TYPE = "application/problem+json";

/** What is wrong with one field of a request. */
export const FieldProblem = z.strictObject({
  /** Where: `body.chunk_size`, `query.limit`, `path.backfill_id`. */
  field: z.string(),
  message: z.string(),
});
export type FieldProblem = z.infer<typeof FieldProblem>;

/** An error answer after RFC 9457; `code` is what programs match on. */
export const Problem = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string(),
    detail: z.string(),
    details: z.record(z.string(), z.unknown()),
    correlation_id: z.string().optional(),
    errors: z.array(FieldProblem).optional(),
  })
  .meta({ id: "Problem" });
export type Problem = z.infer<typeof Problem>;

/** Whether a text is one of the error codes. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}

/** What is read of a problem: no more than is used, so that a newer server may say more. */
const ReadProblem = z.object({
  code: z.string(),
  detail: z.string().optional(),
  details: z.record(z.string(), z.unknown()).optional(),
  errors: z.array(FieldProblem).optional(),
});

/** The error that a problem document stands for, or null when it is something else. */
export function problemError(body: unknown): PawlError | null {
  const parsed = ReadProblem.safeParse(body);
  if (!parsed.success || !isErrorCode(parsed.data.code)) return null;
  const { code, detail = `The server refused it: ${code}.`, details, errors } = parsed.data;
  return new PawlError(code, detail, {
    details: errors === undefined ? { ...details } : { ...details, errors },
  });
}

/** Other names that fields of a request may have: by the field's own name, at any depth. */
export type Aliases = {
  readonly [name: string]: { readonly also?: readonly string[]; readonly within?: Aliases };
};

/** Other names in a wish for a backfill. */
export const BACKFILL_ALIASES: Aliases = {
  selector: {
    also: ["partition_selector"],
    within: {
      start: { also: ["partition_start"] },
      end: { also: ["partition_end"] },
      dimensions: { also: ["filters"] },
    },
  },
};

/** Other names in what is said of a schedule. */
export const SCHEDULE_ALIASES: Aliases = { cron: { also: ["cron_expression"] } };

/**
 * The body of a request with every field under its own name, so that all that comes after knows one
 * name only. Throws INPUT_INVALID when two names of a field say different things.
 */
export function underOwnNames(value: unknown, aliases: Aliases, place = "body"): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const fields: Record<string, unknown> = { ...value };
  for (const [name, { also = [], within }] of Object.entries(aliases)) {
    let saying: string | null = null;
    for (const each of [name, ...also]) {
      if (!Object.hasOwn(fields, each)) continue;
      const said =
        within === undefined
          ? fields[each]
          : underOwnNames(fields[each], within, `${place}.${each}`);
      if (each !== name) delete fields[each];
      if (saying === null) fields[name] = said;
      else if (!isSame(fields[name], said))
        throw sayingDifferently(`${place}.${each}`, `${place}.${saying}`);
      saying ??= each;
    }
  }
  return fields;
}

function isSame(one: unknown, other: unknown): boolean {
  return canonicalJson(one) === canonicalJson(other);
}

/** The refusal of two names of one field that say different things. */
export function sayingDifferently(one: string, other: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `${one} is another name of ${other}, and the two say different things: send one of them.`,
    { details: { fields: [one, other] } },
  );
}

/** What acts by itself as a path names it: by its id, or by its name. */
export const EntityRef = z.string().min(1).max(200);

/** Names a request that makes something; the same name never makes a second. */
export const clientRequestId = { client_request_id: z.string().min(1).max(200).optional() };

/** What making, changing, pausing, resuming or deleting something answers, besides its id and state. */
export const entityAnswer = { ...accepted, name: z.string(), state_version: Count };

/** The same for what changes the definition. */
export const definedAnswer = { ...entityAnswer, definition_version: Count };

/** Longest time that the secret before may stay good: 30 days. */
const OVERLAP_SECONDS_MAX = 2_592_000;

/** A wish for a new secret. */
export const NewSecretBody = z
  .strictObject({
    /** How long the one before stays good; 0 ends it at once. */
    overlap_seconds: z.int().min(0).max(OVERLAP_SECONDS_MAX).default(86_400),
  })
  .meta({ id: "NewSecret" });

/** What a new secret answers: this once the secret itself. */
export const secretAnswer = {
  message: z.string(),
  name: z.string(),
  secret: z.string(),
  created_at: InstantText,
  /** Until when the one before is good; null when there was none. */
  previous_expires_at: InstantText.nullable(),
};
