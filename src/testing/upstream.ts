import type { AssetReference } from "../define/asset.ts";
import type {
  TaskContext,
  UpstreamOptions,
  UpstreamPartition,
} from "../define/automation-context.ts";
import type { Project } from "../define/define-pawl.ts";
import { PawlError } from "../kernel/errors.ts";
import { suggestion } from "../kernel/message-text.ts";
import type { AssetSpec } from "../work/definition/spec.ts";
import { upstreamKeyOf } from "../worker/tasks/upstream.ts";

/** An upstream partition of a test: materialized, and nothing else known of it unless told. */
export type TestUpstreamPartition = Pick<UpstreamPartition, "partition"> &
  Partial<Omit<UpstreamPartition, "asset">>;

/**
 * What is upstream, by asset: what `context.upstream` gives, whatever the mapping is, or a function that
 * says it for each partition of the task.
 */
export type TestUpstream = Readonly<
  Record<
    string,
    readonly TestUpstreamPartition[] | ((partition: string) => readonly TestUpstreamPartition[])
  >
>;

/** Upstream assets of one asset: those that a test has to speak for, and those that Pawl knows. */
export type UpstreamOf = { readonly unknown: readonly string[]; readonly known: readonly string[] };

/** The context with what a test says of upstream partitions; of all others the context itself tells. */
export function withUpstream(
  context: TaskContext,
  said: TestUpstream,
  { unknown, known }: UpstreamOf,
): TaskContext {
  const saidOf = (asset: AssetReference, options?: UpstreamOptions): UpstreamPartition[] | null => {
    const key = upstreamKeyOf(asset);
    const states = Object.hasOwn(said, key) ? said[key] : undefined;
    if (states !== undefined) return statesOf(key, states, partitionsOf(context, options));
    if (known.includes(key)) return null;
    throw unknown.includes(key)
      ? unsaid(key)
      : notUpstream(context.asset, key, [...unknown, ...known]);
  };
  return {
    ...context,
    async upstream(asset, options) {
      return saidOf(asset, options) ?? context.upstream(asset, options);
    },
    async *eachUpstream(asset, options) {
      yield* saidOf(asset, options) ?? context.eachUpstream(asset, options);
    },
  };
}

/** The project, whose functions find in their context what a test says of upstream partitions. */
export function projectWithUpstream(
  project: Project,
  said: TestUpstream,
  upstreamOf: ReadonlyMap<string, UpstreamOf>,
): Project {
  const names = [...upstreamOf.values()].flatMap(({ unknown, known }) => [...unknown, ...known]);
  for (const key of Object.keys(said)) {
    if (names.includes(key)) continue;
    throw new PawlError(
      "INPUT_INVALID",
      `materialize() was given upstream partitions of ${JSON.stringify(key)}, which none of its ` +
        `assets is made from${suggestion(key, names)}.`,
      { details: { upstream: key } },
    );
  }
  const functions = [...project.functions].map(([key, make]) => {
    const own = upstreamOf.get(key) ?? { unknown: [], known: [] };
    const made: typeof make = (context) => make(withUpstream(context, said, own));
    return [key, made] as const;
  });
  const specs = project.specs.map((spec) => (spec.kind === "asset" ? heldTo(spec, said) : spec));
  return { ...project, specs, functions: new Map(functions) };
}

/** How long a task of a test waits for what its asset requires: nobody else makes anything here. */
const WAIT_MS_MAX = 60_000;

/** What the asset requires of its upstream in a test; nothing where the test speaks for all of it. */
function heldTo(spec: AssetSpec, said: TestUpstream): AssetSpec {
  const { requires, ...rest } = spec;
  if (requires === undefined) return spec;
  if (spec.upstream.every(({ asset_key }) => Object.hasOwn(said, asset_key))) return rest;
  const wait_timeout_ms = Math.min(requires.wait_timeout_ms, WAIT_MS_MAX);
  return { ...rest, requires: { ...requires, wait_timeout_ms } };
}

function partitionsOf(
  { asset, partition, partitions }: TaskContext,
  { partition: only }: UpstreamOptions = {},
): readonly string[] {
  if (only === undefined) return partitions.length === 0 ? [partition] : partitions;
  if (partitions.includes(only)) return [only];
  throw new PawlError(
    "INPUT_INVALID",
    `${JSON.stringify(only)} is not one of this task's partitions of ${asset}.`,
    { details: { partition_key: only } },
  );
}

function statesOf(
  asset: string,
  states: TestUpstream[string],
  partitions: readonly string[],
): UpstreamPartition[] {
  const all = typeof states === "function" ? partitions.flatMap((each) => states(each)) : states;
  const distinct = new Map(all.map((state) => [state.partition, state]));
  return [...distinct.values()].map((state) => ({
    asset,
    status: "MATERIALIZED",
    materializedAt: null,
    runId: null,
    codeVersion: null,
    metadata: null,
    ...state,
  }));
}

function unsaid(key: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `This test does not say what is upstream in ${key}. Say it with ` +
      `upstream: { ${JSON.stringify(key)}: [{ partition: "…" }] }.`,
    { details: { upstream: key } },
  );
}

function notUpstream(asset: string, key: string, names: readonly string[]): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `${JSON.stringify(key)} is not an upstream asset of ${asset}${suggestion(key, names)}.`,
    { details: { asset_key: asset, upstream: key } },
  );
}
