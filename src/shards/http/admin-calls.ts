import { z } from "zod";
import { TablePolicy } from "../../work/shard/spec.ts";
import type { ApplyRequest, Shard } from "../shard.ts";
import type { IsJson, SameFields } from "./wire-fields.ts";
import {
  DigestDocument,
  FenceDocument,
  GuardDocument,
  RangeDocument,
  ReadDocument,
  SequenceDocument,
  ShapeDocument,
} from "./shard-documents.ts";

/** What a shard can be asked to do over HTTP. */
export type AdminCall = Exclude<keyof Shard, "engine" | "close">;

/** One of them: where it is sent, what it takes, and how long it may take. */
export type AdminCallSpec = {
  readonly path: string;
  readonly args: z.ZodType<unknown[]>;
  readonly timeoutMs: number;
  /** Whether sending it twice does what sending it once does. */
  readonly isRepeatable: boolean;
};

/** For what is done at once, for what waits for locks, and for what goes through many rows. */
const SOON_MS = 20_000;
const WAITING_MS = 120_000;
const LONG_MS = 900_000;

const EXPORT = { path: "/admin/export", timeoutMs: LONG_MS, isRepeatable: true };
const IMPORT = { path: "/admin/import", timeoutMs: LONG_MS, isRepeatable: false };
const EVENTS = { path: "/admin/events", timeoutMs: WAITING_MS, isRepeatable: true };
const FENCE = { path: "/admin/fence", timeoutMs: WAITING_MS, isRepeatable: false };

const Nothing = z.tuple([]);
const Tenants = z.array(z.string().min(1));
const Shapes = z.array(ShapeDocument);

/** Everything that a driver may ask a shard for, and where. */
export const ADMIN_CALLS = asShardHas({
  describe: { ...EXPORT, args: z.tuple([z.array(TablePolicy)]) },
  firingTriggers: { ...EXPORT, args: z.tuple([Shapes]) },
  obstacles: { ...EXPORT, args: z.tuple([Shapes, z.enum(["rows", "changes"])]) },
  tenantProblem: { ...EXPORT, args: z.tuple([Shapes, z.array(z.string())]) },
  tryCapture: { ...IMPORT, isRepeatable: true, args: z.tuple([Shapes]) },
  read: { ...EXPORT, args: z.tuple([ReadDocument]) },
  survey: {
    ...EXPORT,
    args: z.tuple([RangeDocument, z.int().positive(), z.int().positive()]),
  },
  tenantRows: { ...EXPORT, args: z.tuple([RangeDocument]) },
  keyBounds: { ...EXPORT, args: z.tuple([RangeDocument]) },
  loadStream: { ...EXPORT, timeoutMs: SOON_MS, args: z.tuple([z.string()]) },
  listStreams: { ...EXPORT, timeoutMs: SOON_MS, args: z.tuple([z.string()]) },
  sequences: { ...EXPORT, timeoutMs: SOON_MS, args: z.tuple([Shapes]) },
  replicationLagMs: { ...EXPORT, timeoutMs: SOON_MS, args: Nothing },

  install: { ...IMPORT, isRepeatable: true, args: Nothing },
  take: { ...IMPORT, isRepeatable: true, args: z.tuple([GuardDocument]) },
  // Rows are in the engine's own form, which its own code reads and checks.
  apply: { ...IMPORT, args: z.tuple([z.custom<ApplyRequest>()]) },
  dropStream: { ...IMPORT, args: z.tuple([GuardDocument, z.string()]) },
  remove: {
    ...IMPORT,
    args: z.tuple([
      GuardDocument,
      RangeDocument,
      z.strictObject({
        limit: z.int().nonnegative(),
        expect: DigestDocument.nullable(),
        fences: z.array(FenceDocument.omit({ shard: true })).exactOptional(),
      }),
    ]),
  },
  advanceSequences: { ...IMPORT, isRepeatable: true, args: z.tuple([z.array(SequenceDocument)]) },

  armCapture: { ...EVENTS, args: z.tuple([GuardDocument, Shapes]) },
  disarmCapture: { ...EVENTS, args: z.tuple([GuardDocument]) },
  position: { ...EVENTS, timeoutMs: SOON_MS, args: Nothing },
  lag: { ...EVENTS, timeoutMs: SOON_MS, args: z.tuple([z.string()]) },
  release: { ...EVENTS, args: z.tuple([GuardDocument, z.string()]) },

  fences: { ...FENCE, isRepeatable: true, timeoutMs: SOON_MS, args: z.tuple([Tenants]) },
  setFences: { ...FENCE, args: z.tuple([GuardDocument, z.array(FenceDocument)]) },
  closeFences: {
    ...FENCE,
    args: z.tuple([
      GuardDocument,
      Tenants,
      z.strictObject({ waitMs: z.number().nonnegative(), holdMs: z.number().nonnegative() }),
    ]),
  },
  holdFences: { ...FENCE, timeoutMs: SOON_MS, args: z.tuple([GuardDocument, Tenants]) },
  dropFences: { ...FENCE, args: z.tuple([GuardDocument, Tenants]) },

  digest: { ...EXPORT, path: "/admin/verify", args: z.tuple([RangeDocument]) },

  runDdl: {
    ...IMPORT,
    path: "/ddl",
    args: z.tuple([GuardDocument, z.string().min(1), z.array(TablePolicy)]),
  },
});

/** A call whose document has the fields of what the method takes, and whose answer JSON can carry. */
type AsShardHas<Call extends AdminCall, Args> =
  SameFields<z.input<Args>, Parameters<Shard[Call]>> extends true
    ? IsJson<Awaited<ReturnType<Shard[Call]>>> extends true
      ? { readonly args: z.ZodType<Parameters<Shard[Call]>> }
      : Call extends "read"
        ? { readonly args: z.ZodType<Parameters<Shard[Call]>> }
        : { readonly args: `the answer of ${Call} is not JSON: give it a document of its own` }
    : { readonly args: `the document of ${Call} has other fields than Shard.${Call} takes` };

/** Gives the table as it is; it does not compile where a document and `Shard` differ in a field. */
function asShardHas<const Table extends { readonly [Call in AdminCall]: AdminCallSpec }>(
  table: Table & {
    readonly [Call in AdminCall]: AsShardHas<Call, Table[Call]["args"]>;
  },
): Table {
  return table;
}

/** Whether a text names something that a shard can be asked for. */
export function isAdminCall(text: string): text is AdminCall {
  return Object.hasOwn(ADMIN_CALLS, text);
}
