import type { RecordedEvent } from "../work/envelope.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Table } from "../kernel/table.ts";
import type { Learnt } from "../work/probe-protocol.ts";
import type {
  Answer,
  Checkpoint,
  Fenced,
  Lease,
  LogLine,
  Probe,
  Progress,
  RunLogSize,
  Sample,
  Secret,
  TokenRow,
} from "./store.ts";

/** The ledger. `actor` and `data` are kept as the text that was hashed, so they are text here. */
export const EVENT_TABLE: Table<RecordedEvent> = {
  name: "events",
  key: ["pos"],
  cells: {
    pos: "int",
    v: "int",
    event_id: "text",
    type: "text",
    subject_pos: "int",
    idempotency_key: "text",
    occurred_at: "text",
    actor: "text",
    correlation_id: "text",
    data: "text",
    prev_hash: "text",
    hash: "text",
  },
  long: ["data"],
};

/** The table of leases. */
export const LEASES: Table<Lease> = {
  name: "leases",
  key: ["lease_id"],
  cells: {
    lease_id: "text",
    worker_id: "text",
    granted_at: "text",
    expires_at: "text",
    tasks: "json",
  },
};

/** The table of stored answers. */
export const ANSWERS: Table<Answer> = {
  name: "answers",
  key: ["scope", "key"],
  cells: {
    scope: "text",
    key: "text",
    body_hash: "text",
    status: "int",
    answer: "json",
    stored_at: "text",
  },
};

/** The table of checkpoints: the newest one of each task. */
export const CHECKPOINTS: Table<Checkpoint> = {
  name: "checkpoints",
  key: ["run_pos", "task_key"],
  cells: {
    run_pos: "int",
    task_key: "int",
    attempt: "int",
    value: "json",
    saved_at: "text",
    holder: "text",
  },
};

/** How far an attempt got, and when it said so. */
export type ProgressRow = Fenced<Progress & { at: Instant }>;

/** The table of progress: the newest word of each task. */
export const PROGRESS: Table<ProgressRow> = {
  name: "progress",
  key: ["run_pos", "task_key"],
  cells: {
    run_pos: "int",
    task_key: "int",
    attempt: "int",
    done: "int",
    total: "int",
    note: "text",
    at: "text",
  },
};

/** A kept log line and its number, which grows within a task. */
export type NumberedLogLine = LogLine & { line: number };

/** The table of log lines. */
export const TASK_LOGS: Table<NumberedLogLine> = {
  name: "task_logs",
  key: ["run_pos", "task_key", "line"],
  cells: {
    run_pos: "int",
    task_key: "int",
    line: "int",
    attempt: "int",
    at: "text",
    message: "text",
    fields: "json",
  },
};

/** What a log line costs besides its texts: a line without any is not free. */
export const LOG_LINE_BYTES = 100;

/** The table of how much runs have logged. */
export const RUN_LOGS: Table<RunLogSize> = {
  name: "run_logs",
  key: ["run_pos"],
  cells: { run_pos: "int", began_at: "text", last_at: "text", bytes: "int", dropped: "int" },
};

/** The table of the bytes of all logs; they are the sum of its rows, so that writers rarely meet. */
export const LOG_TOTALS: Table<{ slot: number; bytes: number }> = {
  name: "log_totals",
  key: ["slot"],
  cells: { slot: "int", bytes: "int" },
};

/** The table of access tokens; `ws` stands before the other cells, as everywhere. */
export const TOKENS: Table<Omit<TokenRow, "ws">> = {
  name: "tokens",
  key: ["token_id"],
  cells: {
    token_id: "text",
    principal: "text",
    secret_hash: "text",
    verbs: "json",
    created_at: "text",
    expires_at: "text",
    revoked_at: "text",
  },
};

/** The table of probes. */
export const PROBES: Table<Probe> = {
  name: "probes",
  key: ["probe_id"],
  cells: {
    probe_id: "text",
    kind: "text",
    subject: "text",
    due_at: "text",
    attempt: "int",
    leased_until: "text",
    leased_by: "text",
    value: "json",
  },
};

/** The table of secrets. */
export const SECRETS: Table<Secret> = {
  name: "secrets",
  key: ["kind", "id", "secret"],
  cells: { kind: "text", id: "text", secret: "text", created_at: "text", expires_at: "text" },
};

/** What was learnt about a source, and when. */
type LearntRow = { source: string; learnt: Learnt; learnt_at: Instant };

/** The table of what was learnt about sources. */
export const LEARNT_SOURCES: Table<LearntRow> = {
  name: "learnt_sources",
  key: ["source"],
  cells: { source: "text", learnt: "json", learnt_at: "text" },
};

/** A worker that uses a source, and when it last said so. */
type SourceUserRow = { source: string; worker_id: string; seen_at: Instant };

/** Most workers that are remembered to use one source. */
export const SOURCE_USERS_MAX = 1_000;

/** The table of which workers use which sources. */
export const SOURCE_USERS: Table<SourceUserRow> = {
  name: "source_users",
  key: ["source", "worker_id"],
  cells: { source: "text", worker_id: "text", seen_at: "text" },
};

/** The table of samples. */
export const SAMPLES: Table<Sample> = {
  name: "samples",
  key: ["series", "at"],
  cells: { series: "text", at: "int", value: "int" },
};

/** What is known of a source that nobody has learnt anything about. */
export const NOTHING_LEARNT: Learnt = Object.freeze({
  request_size: null,
  interval_ms: 0,
  throttled_until: null,
});

/** The tables beside the ledger, which no fold writes. */
export const SIDE_TABLES = [
  LEASES,
  ANSWERS,
  CHECKPOINTS,
  PROGRESS,
  TASK_LOGS,
  RUN_LOGS,
  LOG_TOTALS,
  TOKENS,
  PROBES,
  SECRETS,
  LEARNT_SOURCES,
  SOURCE_USERS,
  SAMPLES,
] as const;
