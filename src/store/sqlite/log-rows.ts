import type { Instant } from "../../kernel/instant.ts";
import { encoded } from "../row-reader.ts";
import { LOG_LINE_BYTES } from "../side-tables.ts";
import type { Fenced, LineVerdict, LogPruning, LogQuota, SaidLine, WorkspaceId } from "../store.ts";
import type { Connection } from "./connection.ts";
import { FENCE } from "./side-rows.ts";

const APPEND = `
insert into task_logs (ws, run_pos, task_key, line, attempt, at, message, fields)
select ?, ?, ?,
  1 + coalesce((select max(line) from task_logs where ws = ? and run_pos = ? and task_key = ?), 0),
  ?, ?, ?, ?
${FENCE}`;

const IS_CURRENT = `select 1 ${FENCE}`;

const NEWEST_LINE = `
select attempt, message from task_logs
where ws = ? and run_pos = ? and task_key = ?
order by line desc
limit 1`;

const RUN_BYTES = "select bytes from run_logs where ws = ? and run_pos = ?";

const COUNT_RUN = `
insert into run_logs (ws, run_pos, began_at, last_at, bytes, dropped)
values (?, ?, ?, ?, ?, ?)
on conflict (ws, run_pos) do update
set last_at = excluded.last_at, bytes = bytes + excluded.bytes, dropped = dropped + excluded.dropped`;

const COUNT_ALL = `
insert into log_totals (ws, slot, bytes)
values (?, 0, ?)
on conflict (ws, slot) do update
set bytes = bytes + excluded.bytes`;

const ALL_BYTES = "select coalesce(sum(bytes), 0) from log_totals where ws = ?";

const OLD_RUNS = `
select run_pos, bytes from run_logs as kept
where ws = ? and began_at < ? and last_at < ?
  and exists (
    select 1 from runs
    where ws = kept.ws and run_pos = kept.run_pos and state not in ('PENDING', 'RUNNING')
  )
order by began_at
limit ?`;

const DROP_LINES = `
delete from task_logs
where ws = ? and run_pos = ? and (task_key, line) in (
  select task_key, line from task_logs
  where ws = ? and run_pos = ?
  order by task_key, line
  limit ?
)
returning ${LOG_LINE_BYTES} + octet_length(message) + coalesce(octet_length(fields), 0)`;

const FORGET_RUN = "delete from run_logs where ws = ? and run_pos = ?";
const LESSEN_RUN = "update run_logs set bytes = max(0, bytes - ?) where ws = ? and run_pos = ?";

/** Most runs whose lines one pruning drops. */
const RUNS_PRUNED_MAX = 100;
/** Later than any instant. */
const NEVER = "9999";

type Line = Fenced<SaidLine>;

/** What a batch adds to the log of a run; `bytes` is what the log has with it. */
type Added = { bytes: number; added: number; dropped: number };

/** Keeps the log lines whose fence is current, within the run's quota, and answers which. */
export function appendLogs(
  connection: Connection,
  ws: WorkspaceId,
  holder: string,
  lines: readonly Line[],
  { runBytesMax, endBytesMax = runBytesMax, notice }: LogQuota,
  now: Instant,
): LineVerdict[] {
  const runs = new Map<number, Added>();
  const runOf = (runPos: number): Added => {
    const known = runs.get(runPos);
    if (known !== undefined) return known;
    const bytes = Number(connection.row(RUN_BYTES, [ws, runPos])?.[0] ?? 0);
    const made = { bytes, added: 0, dropped: 0 };
    runs.set(runPos, made);
    return made;
  };
  const append = (line: Line, fields: string | null, bytes: number): boolean => {
    const { run_pos, task_key, attempt, message } = line;
    const task = [ws, run_pos, task_key];
    const cells = [attempt, now, message, fields];
    if (connection.run(APPEND, [...task, ...task, ...cells, ...task, attempt, holder]) !== 1) {
      return false;
    }
    const run = runOf(run_pos);
    run.bytes += bytes;
    run.added += bytes;
    return true;
  };
  const verdicts = lines.map((line): LineVerdict => {
    const fields = encoded("json", line.fields) as string | null;
    const bytes = bytesOf(line.message, fields);
    const run = runOf(line.run_pos);
    const most = line.ends_attempt === true ? endBytesMax : runBytesMax;
    if (run.bytes + bytes <= most) return append(line, fields, bytes) ? "kept" : "lost";
    const { run_pos, task_key, attempt } = line;
    const task = [ws, run_pos, task_key];
    if (connection.row(IS_CURRENT, [...task, attempt, holder]) === null) return "lost";
    run.dropped++;
    const [last, text] = connection.row(NEWEST_LINE, task) ?? [];
    const isSaid = last === attempt && text === notice;
    if (!isSaid) append({ ...line, message: notice }, null, bytesOf(notice, null));
    return "dropped";
  });
  count(connection, ws, runs, now);
  return verdicts;
}

function bytesOf(message: string, fields: string | null): number {
  return LOG_LINE_BYTES + Buffer.byteLength(message) + Buffer.byteLength(fields ?? "");
}

function count(
  connection: Connection,
  ws: WorkspaceId,
  runs: ReadonlyMap<number, Added>,
  now: Instant,
): void {
  let all = 0;
  for (const [runPos, { added, dropped }] of runs) {
    if (added === 0 && dropped === 0) continue;
    connection.run(COUNT_RUN, [ws, runPos, now, now, added, dropped]);
    all += added;
  }
  if (all > 0) connection.run(COUNT_ALL, [ws, all]);
}

/** The bytes of all kept log lines. */
export function logBytes(connection: Connection, ws: WorkspaceId): number {
  return Number(connection.row(ALL_BYTES, [ws])?.[0] ?? 0);
}

/** Drops the oldest lines of ended runs, and answers how many, and how many bytes they had. */
export function pruneLogs(
  connection: Connection,
  ws: WorkspaceId,
  { silentSince, bytesEnough, linesMax }: LogPruning,
): { lines: number; bytes: number } {
  const before = silentSince ?? NEVER;
  let lines = 0;
  let bytes = 0;
  for (const [runPos, counted] of connection.rows(OLD_RUNS, [
    ws,
    before,
    before,
    RUNS_PRUNED_MAX,
  ])) {
    if (lines >= linesMax || bytes >= bytesEnough) break;
    const run = [ws, runPos];
    const gone = connection.rows(DROP_LINES, [...run, ...run, linesMax - lines]);
    const isEmptied = lines + gone.length < linesMax;
    lines += gone.length;
    const freed = isEmptied ? Number(counted) : gone.reduce((sum, [size]) => sum + Number(size), 0);
    if (isEmptied) connection.run(FORGET_RUN, run);
    else connection.run(LESSEN_RUN, [freed, ...run]);
    bytes += freed;
  }
  if (bytes > 0) connection.run(COUNT_ALL, [ws, -bytes]);
  return { lines, bytes };
}
