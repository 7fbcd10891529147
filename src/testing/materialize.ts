import { type Asset, type AssetReference, assetKeysOf, pool } from "../define/asset.ts";
import { definePawl, type Project } from "../define/define-pawl.ts";
import { refuseUnknownOptions } from "../define/parse-definition.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import type { Selector } from "../kernel/keyspace/selector.ts";
import type { CheckStatus } from "../work/asset/checks.ts";
import type { PartitionStatus } from "../work/asset/api.ts";
import type { BackfillDocument } from "../work/backfill/documents.ts";
import { TEST_OPTIONS, type TestCall, type TestFailure, type TestOptions } from "./records.ts";
import { withTestPawl } from "./test-pawl.ts";
import { projectWithUpstream, type TestUpstream, type UpstreamOf } from "./upstream.ts";

/** Which partitions to make, with what, and when. */
export type MaterializeOptions = TestOptions & {
  /** Of a project: which assets; all unless told. */
  assets?: AssetReference | readonly AssetReference[];
  partition?: string;
  partitions?: readonly string[];
  /** Instead of keys: a range, a filter; all partitions there are at `now` when nothing is said. */
  selector?: Selector;
  /** What functions find as `context.config`. */
  config?: Readonly<Record<string, Json>>;
  /** What functions find with `context.upstream`, of upstream assets that are not made here. */
  upstream?: TestUpstream;
  /** Partitions of one chunk, which a batch gets at once; 10 unless told. */
  chunkSize?: number;
};

/** What came of it. */
export type Materialized = {
  /** `SUCCEEDED` when everything was made or skipped. */
  readonly state: BackfillDocument["state"];
  /** The first failure that counted; null when there was none. */
  readonly error: TestFailure | null;
  /** Every call of a function, in the order in which they began. */
  readonly calls: readonly TestCall[];
  /** Every partition that was tried, as Pawl shows it now. */
  readonly partitions: readonly {
    readonly asset: string;
    readonly partition: string;
    readonly status: PartitionStatus;
    readonly metadata: Json;
    /** What its checks came to, the worst of them; null where there were none. */
    readonly checkStatus: CheckStatus | null;
    readonly error: TestFailure | null;
  }[];
};

const OPTIONS = [
  ...TEST_OPTIONS,
  "assets",
  "partition",
  "partitions",
  "selector",
  "config",
  "upstream",
  "chunkSize",
];

/**
 * Makes partitions of an asset, of assets that follow each other, or of a whole project as a server and
 * a worker would: upstream first, with retries, timeouts and everything else that is defined, in memory.
 * What upstream assets are not given is taken to be there. Throws what the API would refuse it with.
 */
export async function materialize(
  what: Asset | readonly Asset[] | Project,
  options: MaterializeOptions = {},
): Promise<Materialized> {
  refuseUnknownOptions("materialize()", options, OPTIONS);
  const given = "specs" in what ? [] : "key" in what ? [what] : what;
  const bare = "specs" in what ? what : projectOfAssets(given);
  const project = projectWithUpstream(bare, options.upstream ?? {}, upstreamOf(bare, given));
  const keys = [...project.functions.keys()];
  const assets = options.assets === undefined ? keys : assetKeysOf(options.assets);
  const { config, chunkSize } = options;
  const body = {
    assets,
    selector: selectorOf(options),
    ...(config === undefined ? {} : { config }),
    ...(chunkSize === undefined ? {} : { chunk_size: chunkSize }),
    // One after the other, so that the order of calls is always the same.
    max_concurrent_runs: options.concurrency ?? 1,
  };
  return withTestPawl(project, { kind: "assets" }, options, async (pawl) => {
    const { client } = pawl;
    const subject = assets.join(", ");
    const { backfills } = await pawl.during(client.call("createBackfill", { body }), subject);
    const made: BackfillDocument[] = [];
    for (const { backfill_id } of backfills) {
      made.push(await pawl.during(client.backfills.waitFor(backfill_id), subject));
    }
    const worst = made.find(({ state }) => state !== "SUCCEEDED");
    const failed = made.find(({ first_error }) => first_error !== null);
    const partitions: Materialized["partitions"][number][] = [];
    for await (const each of client.each("listPartitions", { query: { limit: 200 } })) {
      const { class: kind, message } = each.last_attempt_error ?? {};
      const error = kind === undefined || message === undefined ? null : { class: kind, message };
      const { asset_key: asset, partition_key: partition, status, metadata } = each;
      const checkStatus = each.check_status;
      partitions.push({ asset, partition, status, metadata, checkStatus, error });
    }
    return {
      state: worst?.state ?? "SUCCEEDED",
      error: failed?.first_error ?? null,
      calls: pawl.recorder.callsMade(),
      partitions,
    };
  });
}

/** What each asset is made from: what is part of the project, and what a test has to speak for. */
function upstreamOf({ specs }: Project, given: readonly Asset[]): ReadonlyMap<string, UpstreamOf> {
  const all = new Map(given.map(({ key, upstream }) => [key, upstream]));
  return new Map(
    specs.flatMap((spec): [string, UpstreamOf][] => {
      if (spec.kind !== "asset") return [];
      const known = spec.upstream.map(({ asset_key }) => asset_key);
      const rest = (all.get(spec.asset_key) ?? []).map(({ asset_key }) => asset_key);
      const unknown = rest.filter((key) => !known.includes(key));
      return [[spec.asset_key, { known, unknown }]];
    }),
  );
}

/** A project of just these assets: of upstream assets that are not among them nothing is known. */
export function projectOfAssets(
  assets: readonly Asset[],
  rest: Omit<Parameters<typeof definePawl>[0], "assets" | "pools"> = {},
): Project {
  const keys = new Set(assets.map(({ key }) => key));
  const pools = new Set(assets.flatMap(({ spec }) => spec.pool ?? []));
  return definePawl({
    assets: assets.map((asset) => {
      const upstream = asset.upstream.filter(({ asset_key }) => keys.has(asset_key));
      const { requires: _requires, ...spec } = asset.spec;
      return { ...asset, upstream, spec: upstream.length > 0 ? asset.spec : spec };
    }),
    // How many run at once is up to the test.
    pools: [...pools].map((name) => pool(name, { limit: 1_000 })),
    ...rest,
  });
}

function selectorOf({ partition, partitions, selector }: MaterializeOptions): Selector {
  const given = [partition, partitions, selector].filter((each) => each !== undefined);
  if (given.length > 1) {
    throw new PawlError(
      "INPUT_INVALID",
      "materialize() was given several of partition, partitions and selector; give one of them.",
    );
  }
  if (partition !== undefined) return { type: "explicit", partition_keys: [partition] };
  if (partitions !== undefined) return { type: "explicit", partition_keys: [...partitions] };
  return selector ?? { type: "all" };
}
