import { z } from "zod";
import { Count, InstantText, JsonValue } from "./envelope.ts";
import {
  accepted,
  commaList,
  DOCUMENT_BYTES_MAX,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  TransitionBody,
} from "./operation.ts";

const Name = z.string().min(1).max(100);

/** What can be asked of work, when, and what for. */
const CommandField = z.strictObject({
  command: z.string(),
  /** The states in which it is not refused. */
  states: z.array(z.string()),
});

/** A kind of work, as far as the routes that kinds share show it. */
export const KindDocument = z
  .strictObject({
    kind: z.string(),
    /** What it does. */
    about: z.string(),
    /** Its states: where it goes on by itself, waits for somebody, ended well, or did not. */
    states: z.record(z.string(), z.enum(["goes on", "waits", "ended well", "ended"])),
    /** What making one takes, as JSON Schema. */
    input: z.record(z.string(), JsonValue),
    commands: z.array(CommandField),
  })
  .meta({ id: "Kind" });
export type KindDocument = z.infer<typeof KindDocument>;

/** Some work of whatever kind. */
export const WorkDocument = z
  .strictObject({
    kind: z.string(),
    id: z.string(),
    state: z.string(),
    state_version: Count,
    created_at: InstantText,
    /** How far it is, in its own unit; the total is null while nobody knows it. */
    progress: z.strictObject({
      done: Count,
      failed: Count,
      total: Count.nullable(),
      unit: z.string(),
    }),
    /** What else its kind tells of it. */
    details: z.record(z.string(), JsonValue),
    /** What can be asked of it, what comes of that, and why it makes no sense now; null when it does. */
    commands: z.array(
      z.strictObject({ command: z.string(), effect: z.string(), why_not: z.string().nullable() }),
    ),
  })
  .meta({ id: "Work" });
export type WorkDocument = z.infer<typeof WorkDocument>;

/** Where work stands after a change. */
export const WorkTransition = z
  .strictObject({
    ...accepted,
    kind: z.string(),
    id: z.string(),
    state: z.string(),
    state_version: Count,
  })
  .meta({ id: "WorkTransition" });
export type WorkTransition = z.infer<typeof WorkTransition>;

const KIND_PATH = `${ORCHESTRATION_PATH}/work/{kind}`;
const KindParams = z.strictObject({ kind: Name });
const WorkParams = z.strictObject({ kind: Name, id: Name });

/** What the API can do with work of kinds that have no routes of their own. */
export const WORK_OPERATIONS = {
  listKinds: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/work`,
    summary: "Lists the kinds of work that have no routes of their own",
    verb: "read",
    query: z.strictObject(readQuery),
    answer: z.strictObject({ items: z.array(KindDocument) }),
    status: 200,
  },
  listWork: {
    method: "GET",
    path: KIND_PATH,
    summary: "Lists work of a kind, newest first",
    verb: "read",
    params: KindParams,
    query: z.strictObject({ ...pageQuery, status: commaList(Name).optional() }),
    answer: pageOf(WorkDocument),
    status: 200,
  },
  createWork: {
    method: "POST",
    path: KIND_PATH,
    summary: "Makes work of a kind, of what that kind takes",
    verb: "write",
    params: KindParams,
    body: z.record(z.string(), JsonValue),
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: WorkTransition,
    status: 202,
    creates: true,
  },
  getWork: {
    method: "GET",
    path: `${KIND_PATH}/{id}`,
    summary: "Shows some work, how far it is, and what can be asked of it now",
    verb: "read",
    params: WorkParams,
    query: z.strictObject(readQuery),
    answer: WorkDocument,
    status: 200,
  },
  changeWork: {
    method: "POST",
    path: `${KIND_PATH}/{id}/{command}`,
    summary: "Asks something of some work: one of the commands of its kind",
    verb: "write",
    params: z.strictObject({ kind: Name, id: Name, command: Name }),
    body: TransitionBody,
    answer: WorkTransition,
    status: 202,
  },
} as const satisfies Record<string, Operation>;
