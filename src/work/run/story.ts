import type { RecordedEvent } from "../envelope.ts";
import type { EventData } from "../events.ts";
import type { RowReader, Story, StoryReader } from "../kind.ts";
import type { TaskResultField } from "./events.ts";
import { RUNS, type RunRow } from "./rows.ts";
import { expandTasks } from "./tasks.ts";

/** Most events that are told of one thing. */
export const EVENTS_MAX = 10_000;
/** Failures that are part of a story. */
const FAILURES_TOLD = 5;

/** The run with this id; null when there is none. */
export async function runById(reader: RowReader, runId: string): Promise<RunRow | null> {
  const [run] = await reader.find({
    table: RUNS,
    where: [{ cell: "run_id", is: "=", value: runId }],
    order: [],
    limit: 1,
  });
  return run ?? null;
}

/** The events about what was created at a position. */
export async function eventsAbout(reader: StoryReader, subject: number): Promise<Story> {
  return reader.events({ after: subject - 1, subjects: [subject], limit: EVENTS_MAX });
}

/** The beginning and the end of a run, and of the events about its tasks those that count. */
export async function runEvents(
  reader: StoryReader,
  runPos: number,
  counts: (event: RecordedEvent) => boolean,
): Promise<Story> {
  const told: RecordedEvent[] = [];
  for await (const page of reader.eventPages({ after: runPos - 1, subjects: [runPos] })) {
    told.push(...page.filter((event) => !ABOUT_TASKS.includes(event.type) || counts(event)));
  }
  return told;
}

const ABOUT_TASKS = [
  "TasksStarted",
  "TasksFinished",
  "TaskLeaseExpired",
  "TasksDeferred",
  "TasksRequeued",
];

/** The results of attempts that an event tells; none for all other events. */
export function resultsOf({ type, data }: RecordedEvent): readonly TaskResultField[] {
  if (type === "TasksFinished") return (JSON.parse(data) as EventData<"TasksFinished">).results;
  if (type !== "TaskLeaseExpired") return [];
  return [(JSON.parse(data) as EventData<"TaskLeaseExpired">).result];
}

/** The first tasks of a run that failed for good. */
export async function failedTasks(
  reader: StoryReader,
  runPos: number,
): Promise<ReadonlySet<number>> {
  const tasks = new Set<number>();
  const isFailure = ({ outcome, retry_at }: TaskResultField): boolean =>
    outcome === "FAILED" && retry_at === undefined;
  for await (const page of reader.eventPages({ after: runPos - 1, subjects: [runPos] })) {
    for (const { task_key } of page.flatMap(resultsOf).filter(isFailure)) {
      if (tasks.size < FAILURES_TOLD) tasks.add(task_key);
    }
  }
  return tasks;
}

/** Whether one of these tasks began, ended, or was left out because of what the event says. */
export function isAboutTasks(event: RecordedEvent, tasks: ReadonlySet<number>): boolean {
  const isOne = ({ task_key, count = 1 }: { task_key: number; count?: number | undefined }) =>
    Array.from({ length: count }, (_, at) => task_key + at).some((key) => tasks.has(key));
  if (event.type === "TasksStarted") {
    return (JSON.parse(event.data) as EventData<"TasksStarted">).tasks.some(isOne);
  }
  if (event.type === "TasksDeferred" || event.type === "TasksRequeued") {
    return (JSON.parse(event.data) as EventData<"TasksRequeued">).tasks.some(isOne);
  }
  return resultsOf(event).some((result) => isOne(result) || (result.skips ?? []).some(isOne));
}

/** The tasks of a run that make a partition. */
export async function tasksFor(
  reader: StoryReader,
  run: RunRow,
  assetKey: string,
  partitionKey: string,
): Promise<ReadonlySet<number>> {
  const [asked] = await reader.events({ after: run.run_pos - 1, limit: 1 });
  if (asked?.type !== "RunRequested") return new Set();
  const { tasks: assets } = JSON.parse(asked.data) as EventData<"RunRequested">;
  const keys = run.partition_keys ?? [];
  const alone = assets.map((asset) => ({ ...asset, upstream: [] }));
  const own = expandTasks(alone, keys.length).filter(
    ({ asset_index, partition_index }) =>
      assets[asset_index]?.asset_key === assetKey &&
      (partition_index === null || keys[partition_index] === partitionKey),
  );
  return new Set(own.map(({ task_key }) => task_key));
}

/** The event at a position. */
export function eventAt(reader: StoryReader, pos: number): Promise<Story> {
  return reader.events({ after: pos - 1, through: pos, limit: 1 });
}

/** What happened to a run; nothing when there is none with this id. */
export async function eventsOfRun(reader: StoryReader, runId: string | null): Promise<Story> {
  const run = runId === null ? null : await runById(reader, runId);
  return run === null ? [] : eventsAbout(reader, run.run_pos);
}
