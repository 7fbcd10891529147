import type { z } from "zod";
import type { Json } from "../kernel/canonical.ts";
import type { Instant } from "../kernel/instant.ts";
import type { AnyRow, Condition, Find, Key, Order, Table } from "../kernel/table.ts";
import type { CommandRule, Expecting } from "./command.ts";
import type { Context, Decide } from "./decision.ts";
import type { EventFilter, RecordedEvent } from "./envelope.ts";
import type { EventData, KindEvents, NewEvent } from "./events.ts";
import type { Folding, Recorded, Touch } from "./fold.ts";
import type { RowOf, Rows } from "./rows.ts";
import type { SegmentRef, TaskResultField, WorkRef } from "./run/events.ts";
import type { ClaimedGroup, ReportedResult } from "./run/protocol.ts";
import type { RunAssetRow, RunRow, RunState } from "./run/rows.ts";
import type { ShardWorkRef } from "./shard/step-protocol.ts";
import type { KindTables, TableName } from "./tables.ts";

/**
 * A kind of work: something that a user asks for once, and that then asks for runs until it is done.
 * Whatever is the same for all kinds goes over the list in `kinds.ts` and knows none of them.
 */
export interface WorkKind {
  readonly name: string;
  /** What becomes of the runs that it asks for. */
  readonly runs: KindRuns;
  /** How it goes on, where a controller lets it. */
  readonly work?: ControlledWork;
  /** How it came to where it stands. */
  readonly stories: KindStories;
  /** What it brings with it of what is kept; Pawl's own kinds have theirs in the lists of all. */
  readonly parts?: KindParts;
  /** What users see of it by the routes, commands and pages that kinds share. */
  readonly surface?: KindSurface;
}

/**
 * The tables, events and folds of a kind. Their types are declared beside them, by adding to
 * `KindTables` and `KindEvents`.
 */
export interface KindParts {
  readonly tables: { readonly [Name in keyof KindTables]?: KindTables[Name] };
  readonly events: { readonly [Type in keyof KindEvents]?: KindEvents[Type] };
  readonly folds: { readonly [Type in keyof KindEvents]?: Folding<Type> };
}

/** What the row of some work has, whatever kind it is. */
export type WorkRow = AnyRow & {
  readonly state: string;
  readonly state_version: number;
  readonly created_at: Instant;
  readonly created_pos: number;
};

/** How far some work is, in its own unit; the total is null while nobody knows it. */
export type WorkProgress = { done: number; failed: number; total: number | null; unit: string };

/** A command about some work. */
export type WorkCommand = Expecting & { readonly id: string; readonly reason?: string | undefined };

/** Where some work stands after a command. */
export type WorkChanged = {
  readonly id: string;
  readonly state: string;
  readonly state_version: number;
};

/**
 * What users see of a kind and can ask of it. From this alone it has its routes below `/work/<kind>`,
 * its commands below `pawl <kind>`, its entry and pages in the web page, and its metrics.
 */
export interface KindSurface {
  /** What it does, as `pawl --help` says it: "count to a number, in chunks". */
  readonly about: string;
  /** The states of its rows: where it goes on by itself, waits for somebody, ended well, or did not. */
  readonly states: Readonly<Record<string, "goes on" | "waits" | "ended well" | "ended">>;
  /** What making one takes. */
  readonly input: z.ZodObject;
  create(input: unknown): Decide<WorkChanged>;
  /** What can be asked of one, by name. */
  readonly commands: {
    readonly [command: string]: CommandRule<never, string> & {
      decide(said: WorkCommand): Decide<WorkChanged>;
    };
  };
  /** All of them, with what comes of each and why it makes no sense now, if so. */
  judged(row: WorkRow): { command: string; effect: string; why_not: string | null }[];
  progress(row: WorkRow): WorkProgress;
  /** What else there is to know of one. */
  details(row: WorkRow): Record<string, Json>;
}

/** Rows as they stand. */
export interface RowReader {
  load<Row extends AnyRow>(table: Table<Row>, keys: readonly Key[]): Promise<Row[]>;
  find<Row extends AnyRow>(find: Find<Row>): Promise<Row[]>;
}

/** Rows and events as they stand, for who tells a story of them. */
export interface StoryReader extends RowReader {
  events(filter: EventFilter): Promise<RecordedEvent[]>;
  /** All events of a filter, however many, some at a time. */
  eventPages(filter: Omit<EventFilter, "limit" | "descending">): AsyncIterable<RecordedEvent[]>;
  /** How a request came about that something was created by; nothing when a person made it. */
  requestStory(requestId: string): Promise<Story>;
}

/** The events that led to something, in any order. */
export type Story = RecordedEvent[];

/** Which events tell how something of a kind came to where it stands. */
export interface KindStories {
  /** What an id stands for; null when it is none of this kind. */
  byId(reader: StoryReader, id: string): Promise<Story | null>;
  /** What a name stands for, where its things have names. */
  byName?(reader: StoryReader, name: string): Promise<Story | null>;
  /** How a run of its own came to be asked for. */
  origin(reader: StoryReader, run: RunRow): Promise<Story>;
  /** How a request of its own came about that something else was created by; null when it is none. */
  request?(reader: StoryReader, requestId: string): Promise<Story | null>;
}

/** The place and time of an event. */
export type At = { pos: number; occurred_at: Instant };

/** What every event of a run carries, so that its rows are found. */
export type RunRef = {
  run_pos: number;
  backfill_id: string | null;
  chunk_index: number | null;
  segment?: SegmentRef | undefined;
  shard_work?: ShardWorkRef | undefined;
  work?: WorkRef | undefined;
};

/** Partitions of a run, by how they stand; what was skipped has succeeded as well. */
export type PartitionCounts = Record<
  "planned" | "running" | "succeeded" | "failed" | "cancelled" | "skipped",
  number
>;

/** What a kind adds to the end of a run: fields of its event, and events after it. */
export type RunEnd = {
  fields?: Partial<Pick<EventData<"RunFinished">, "schedule_id" | "segment_end" | "splits">>;
  after?: readonly NewEvent[];
};

/** A run that has ended, before that is recorded. */
export type EndedRun = {
  run: RunRow;
  assets: readonly RunAssetRow[];
  outcome: Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">;
  /** Which of the run's partitions failed, by asset. */
  failed: EventData<"RunFinished">["failed"];
};

/** What the runs of a kind of work have of their own. */
export interface KindRuns extends FoldedRuns, DecidedRuns {}

/**
 * What the fold tells a kind of each event of a run. The kind knows from the event whether the run is
 * its own, and does nothing for others.
 */
export interface FoldedRuns {
  /** The rows that it reads when a run is asked for. */
  touchesAsked?(data: EventData<"RunRequested">): readonly Touch[];
  /** The rows that it reads with each later event of a run. */
  touches?(ref: RunRef): readonly Touch[];
  /** The rows that it reads besides when a run ends. */
  touchesEnded?(data: EventData<"RunFinished">): readonly Touch[];
  /** A run was asked for, and is there now. */
  queued?(rows: Rows, event: Recorded<"RunRequested">): void;
  /** The first of the run's tasks was claimed. */
  runStarted?(rows: Rows, event: Recorded<"RunStarted">): void;
  attemptStarted?(
    rows: Rows,
    ref: RunRef,
    attempt: { attempt: number; worker_id: string },
    at: At,
  ): void;
  /** An attempt has ended; another follows when the result says when. */
  attemptEnded?(rows: Rows, ref: RunRef, result: TaskResultField, at: At): void;
  /** How many partitions of the run came into a state or left it, by one event. */
  counted?(rows: Rows, ref: RunRef, counts: PartitionCounts, at: At): void;
  /** The run has ended; `run` is as it was before. */
  finished?(rows: Rows, run: RunRow, event: Recorded<"RunFinished">): void;
}

/** What decisions about a run ask the kind that it belongs to. */
interface DecidedRuns {
  /** Whether the run belongs to this kind. */
  owns(run: RunRow): boolean;
  /** Limits how many of its tasks run at once; one object for all that a claim takes. */
  limit?(rows: Rows): StartLimit;
  /** What a worker is told besides; null when the run is not to be done any more. */
  claimed?(
    rows: Rows,
    run: RunRow,
    asset: RunAssetRow,
  ): Pick<ClaimedGroup, "segment" | "step"> | null;
  /** Has loaded what reports about these runs are held against, with one load of each kind. */
  needReported?(rows: Rows, runs: readonly RunRow[]): void;
  /** A worker's report, held against the rows. */
  checkReport?(rows: Rows, run: RunRow, reported: ReportedResult): ReportedResult;
  /** What of a report is kept besides what is kept of every one. */
  kept?(reported: ReportedResult): Pick<TaskResultField, "segment" | "step">;
  /** Whether the run never ends by itself: an attempt that lasted is no failed one. */
  isEndless?(run: RunRow): boolean;
  /** Whether others wait for the run, so that it may not wait until it is alone on a worker. */
  isAwaited?(run: RunRow): boolean;
  /** Whether the run must come to its end, however many workers are lost on the way. */
  isCommitted?(rows: Rows, run: RunRow): boolean;
  /** What to record when the run ends; its tasks have all ended. */
  ended?(rows: Rows, ended: EndedRun, context: Context): RunEnd;
}

/** Which tasks may start, beside pools. */
export interface StartLimit {
  /** Has loaded what the limit on these depends on. */
  need(assets: readonly RunAssetRow[]): void;
  isFree(asset: RunAssetRow): boolean;
  /** Counts a task of the run as started. */
  take(run: RunRow): void;
}

/** Rows that fulfil these conditions, to be looked up page by page: along their id, unless told otherwise. */
export type Question = { readonly where: readonly Condition[]; readonly order?: readonly Order[] };

/** What a sweep found: single rows, and questions that any number of rows may answer. */
export type Unfinished<Swept> = {
  keys: readonly string[];
  questions: readonly Question[];
  /** How far it went, for the next. */
  swept: Swept;
};

/**
 * Rows that a controller looks at until it has nothing to add: which of them, when, and how many at
 * once. The key of their table is one cell, here called their id.
 */
export interface ControlledWork<Name extends TableName = TableName, Swept = unknown> {
  readonly table: Name;
  /** What to record about a row; asked again, it has nothing to add. */
  advance(rows: Rows, row: RowOf<Name>, context: Context): NewEvent[];
  /** Its part of what all controllers may fill of a commit, by weight. */
  readonly weight: number;
  /** Most looks at one of them in a row: an end, what it leads to, and that nothing is left. */
  readonly rounds: number;
  /** Whether one that added something is looked at again, also where that changed only other rows. */
  readonly repeats?: boolean;
  /** Most that are looked at in one commit, and rows after which no further one is. */
  readonly most?: number;
  readonly rowsMost?: number;
  /** The unfinished ones, which a sweep looks at; without any, only time and changes lead to a look. */
  readonly open: readonly Question[];
  /** How many of those one look-up brings. */
  readonly page: number;
  /** What else was left undone; `swept` is what the last sweep answered, null before the first. */
  unfinished?(rows: Rows, swept: Swept | null, limit: number): Unfinished<Swept>;
  /** Those that have something to do by the time alone. */
  readonly due?: DueWork;
  /** The ids that a change of a row makes worth a look; its own unless told otherwise. */
  changed?(row: RowOf<Name>, now: Instant): readonly (string | number)[];
  /** Rows of other tables whose change is a reason to look at some, and which. */
  readonly causes?: readonly Cause[];
  /** Those to look at after a definition was published or removed. */
  published?(definition: { kind: string; name: string }): Question | null;
  /** Has loaded what the controller reads of all of these. */
  need?(rows: Rows, ids: readonly string[]): void;
}

/** Rows of another table whose change is a reason to look at some. */
export interface Cause<Name extends TableName = TableName> {
  readonly table: Name;
  questions(row: RowOf<Name>): readonly Question[];
}

/** Work that falls due by the time alone. */
export type DueWork = {
  /** The cell that says when. */
  readonly cell: string;
  readonly where: readonly Condition[];
  readonly order: readonly Order[];
  readonly limit: number;
  /** Whether a timer is set for the next of them; others are found by the sweep of each second. */
  readonly hasTimer: boolean;
};
