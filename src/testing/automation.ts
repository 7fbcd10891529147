import type { Asset } from "../define/asset.ts";
import type { Project } from "../define/define-pawl.ts";
import { refuseUnknownOptions } from "../define/parse-definition.ts";
import type { Sensor } from "../define/sensor.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError, present } from "../kernel/errors.ts";
import { type Instant, instantOf } from "../kernel/instant.ts";
import type { AnswerOf } from "../work/operations.ts";
import type { ScheduleSpec } from "../work/definition/spec.ts";
import { projectOfAssets } from "./materialize.ts";
import { TEST_OPTIONS, type TestFailure, type TestLog, type TestOptions } from "./records.ts";
import { withTestPawl } from "./test-pawl.ts";
import { epochMsFrom } from "./test-time.ts";

type OfAssets = {
  /** The assets that it asks for, where it is given by itself and not as part of a project. */
  assets?: readonly Asset[];
};

/** What a sensor is to see. */
export type EvaluateOptions = TestOptions &
  OfAssets & {
    /** Of a project: which sensor; the only one unless told. */
    sensor?: string;
    /** What was pushed: the payload, and perhaps the attributes of its sender. */
    message?: { payload: Json; attributes?: Readonly<Record<string, string>> };
    /** How far the sensor had got before; null is the start. */
    cursor?: string | null;
    /** What its watch finds, instead of what there is to be found. */
    items?: readonly Json[];
  };

/** What an evaluation came to. */
export type Evaluated = {
  readonly status: AnswerOf<"evaluateSensor">["status"];
  readonly error: TestFailure | null;
  /** The runs that it asked for; a refused one says why. */
  readonly requests: readonly {
    readonly assets: readonly string[];
    readonly partitions: readonly string[] | null;
    readonly runKey: string;
    readonly outcome: "created" | "existing" | "conflict" | "refused" | "void";
    readonly error: TestFailure | null;
  }[];
  /** Keys that it added to dynamic partitions and that were not there before, by definition. */
  readonly addedPartitions: readonly {
    readonly definition: string;
    readonly keys: readonly string[];
  }[];
  /** Where the next evaluation starts. */
  readonly cursor: string | null;
  readonly logs: readonly TestLog[];
};

/** The longest time that the API waits for an evaluation. */
const EVALUATE_MS = 50_000;

const EVALUATE_OPTIONS = [...TEST_OPTIONS, "assets", "sensor", "message", "cursor", "items"];

/**
 * Evaluates a sensor once, as a worker would, with a message that was pushed or from a cursor on. The runs
 * that it asks for are checked and recorded, and not carried out.
 */
export async function evaluate(
  what: Sensor | Project,
  options: EvaluateOptions = {},
): Promise<Evaluated> {
  refuseUnknownOptions("evaluate()", options, EVALUATE_OPTIONS);
  const project =
    "specs" in what ? what : projectOfAssets(options.assets ?? [], { sensors: [what] });
  const name = nameOf("sensor", options.sensor, project, what);
  const { message, cursor, items } = options;
  refuseWithoutMessage(project, name, message !== undefined);
  const params = { sensor_id: name };
  const body = { ...message, timeout_ms: EVALUATE_MS };
  const tried = { kind: "sensors", items: items ?? null } as const;
  return withTestPawl(project, tried, options, async (pawl) => {
    const { client, recorder } = pawl;
    if (cursor !== undefined) {
      const reset = client.call("resetCursor", { params, body: { cursor } });
      await pawl.during(reset, `The sensor ${name}`);
    }
    const timeoutMs = 2 * EVALUATE_MS;
    const evaluating = client.call("evaluateSensor", { params, body, timeoutMs });
    const made = await pawl.during(evaluating, `The sensor ${name}`);
    if (items !== undefined && !recorder.gaveItems) throw itemsUnused(name);
    return {
      status: made.status,
      error: made.error,
      requests: made.run_requests.map((request) => ({
        assets: request.asset_selection,
        partitions: request.partition_selection,
        runKey: request.run_key,
        outcome: request.outcome,
        error: request.error,
      })),
      addedPartitions: made.keys_added ?? [],
      cursor: made.cursor_after,
      logs: recorder.sensorLogs,
    };
  });
}

function refuseWithoutMessage({ specs }: Project, name: string, hasMessage: boolean): void {
  const isPushed = specs.some(
    (spec) => spec.kind === "sensor" && spec.name === name && spec.mode === "push",
  );
  if (!isPushed || hasMessage) return;
  throw new PawlError(
    "INPUT_INVALID",
    `message: the sensor ${name} is pushed to; give the message that it should see, such as ` +
      '{ payload: { day: "2026-01-05" } }.',
    { details: { sensor: name } },
  );
}

function itemsUnused(name: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `items: the sensor ${name} needs no worker, so the server looks for its items in the ledger. ` +
      "Leave them out, and make with prepare what it should find.",
    { details: { sensor: name } },
  );
}

/** Which time of a schedule is meant. */
export type TickOptions = Omit<TestOptions, "now" | "concurrency" | "folder"> &
  OfAssets & {
    /** Of a project: which schedule; the only one unless told. */
    schedule?: string;
    /** A time of the schedule, such as `2026-01-05T02:00:00Z`. */
    at: string | Date;
  };

/** What a time of a schedule came to. */
export type Ticked = {
  readonly status: "triggered" | "skipped" | "failed";
  /** Why it was skipped; null when it was not. */
  readonly reason: string | null;
  readonly error: TestFailure | null;
  readonly assets: readonly string[];
  /** The partitions that it asks for, the first 100 of them; null for assets without partitions. */
  readonly partitions: readonly string[] | null;
  readonly partitionCount: number | null;
};

const TICK_OPTIONS = ["prepare", "limitMs", "assets", "schedule", "at"];

/** How long before its time a schedule is there. */
const AHEAD_MS = 1_000;

/**
 * Lets one time of a schedule come, and says which partitions it asks for. The run is recorded, and not
 * carried out. Throws INPUT_INVALID when the schedule has no such time.
 */
export async function tick(what: ScheduleSpec | Project, options: TickOptions): Promise<Ticked> {
  refuseUnknownOptions("tick()", options, TICK_OPTIONS);
  const project =
    "specs" in what ? what : projectOfAssets(options.assets ?? [], { schedules: [{ ...what }] });
  const name = nameOf("schedule", options.schedule, project, what);
  const atMs = epochMsFrom("at", options.at);
  const now = new Date(atMs - AHEAD_MS);
  const params = { schedule_id: name };
  return withTestPawl(project, { kind: "schedule", name }, { ...options, now }, async (pawl) => {
    const { client, time } = pawl;
    const after = instantOf(atMs - 1);
    const asked = client.call("listNextTimes", { params, query: { count: 1, after } });
    const [next] = (await pawl.during(asked, `The schedule ${name}`)).items;
    if (next?.scheduled_for !== instantOf(atMs)) {
      throw noSuchTime(name, instantOf(atMs), next?.scheduled_for);
    }
    await time.advanceTo(Date.parse(next.due_at));
    await pawl.during(client.call("tick"), `The schedule ${name}`);
    const { items } = await pawl.during(client.call("listTicks", { params }), name);
    const made = present(items[0], "a time that has come is decided");
    return {
      status: made.status,
      reason: made.reason,
      error: made.error,
      assets: made.asset_selection ?? [],
      partitions: made.partition_keys,
      partitionCount: made.partition_count,
    };
  });
}

function noSuchTime(name: string, at: Instant, next: string | undefined): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `at: the schedule ${name} has no time at ${at}. ` +
      (next === undefined ? "It has none after that." : `The next one is ${next}.`),
    { details: { schedule: name, at, next: next ?? null } },
  );
}

/** The name of the one that is meant: as given, as defined, or the only one of the project. */
function nameOf(
  kind: "sensor" | "schedule",
  given: string | undefined,
  { specs }: Project,
  what: { name: string } | Project,
): string {
  if (given !== undefined) return given;
  if ("name" in what) return what.name;
  const names = specs.flatMap((spec) => (spec.kind === kind ? spec.name : []));
  const [only] = names;
  if (only !== undefined && names.length === 1) return only;
  throw new PawlError(
    "INPUT_INVALID",
    `${kind}: the project has ${names.length === 0 ? "none" : names.join(", ")}; name one of them.`,
    { details: { [`${kind}s`]: names } },
  );
}
