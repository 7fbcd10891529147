import type { AssetReference } from "../../define/asset.ts";
import type { UpstreamOptions, UpstreamPartition } from "../../define/automation-context.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { UpstreamAnswer, UpstreamRequest } from "../../work/asset/upstream-protocol.ts";
import { shortened } from "../plain-values.ts";

/** Which page of upstream partitions is asked for. */
export type UpstreamPage = Pick<UpstreamRequest, "asset_key" | "partition_key" | "cursor">;

/** Who is told of upstream partitions, a page at a time. */
type Asking = { readUpstream(page: UpstreamPage): Promise<UpstreamAnswer> };

/** Most upstream partitions that are given as one list. */
const LIST_MAX = 10_000;

/** Upstream partitions one by one: a page is asked for when the one before it has been gone through. */
export async function* eachUpstream(
  asking: Asking,
  asset: AssetReference,
  options: UpstreamOptions = {},
): AsyncGenerator<UpstreamPartition, void, undefined> {
  for await (const { items } of pages(asking, asset, options)) yield* items;
}

/** All of them as a list; refused where they are more than one list should hold. */
export async function upstreamList(
  asking: Asking,
  asset: AssetReference,
  options: UpstreamOptions = {},
): Promise<UpstreamPartition[]> {
  const list: UpstreamPartition[] = [];
  for await (const { items, total } of pages(asking, asset, options)) {
    if (total > LIST_MAX) throw tooMany(upstreamKeyOf(asset), total);
    for (const item of items) list.push(item);
  }
  return list;
}

async function* pages(asking: Asking, asset: AssetReference, { partition }: UpstreamOptions) {
  const asset_key = upstreamKeyOf(asset);
  const request = { asset_key, ...(partition === undefined ? {} : { partition_key: partition }) };
  for (let cursor: string | null = null; ; ) {
    const page = { ...request, ...(cursor === null ? {} : { cursor }) };
    const answer = await asking.readUpstream(page);
    const items = answer.items.map((item): UpstreamPartition => {
      return {
        asset: asset_key,
        partition: item.partition_key,
        status: item.status,
        materializedAt: item.last_materialization_at,
        runId: item.last_materialization_run_id,
        codeVersion: item.last_materialization_code_version,
        metadata: item.metadata,
      };
    });
    yield { items, total: answer.total };
    cursor = answer.next_cursor;
    if (cursor === null) return;
  }
}

/** The key of the asset that is meant; refuses what names none. */
export function upstreamKeyOf(asset: unknown): string {
  const key = typeof asset === "object" && asset !== null && "key" in asset ? asset.key : asset;
  if (typeof key === "string") return key;
  throw new PawlError(
    "INPUT_INVALID",
    `upstream() needs an upstream asset, by its key or as it was defined, not ${shortened(asset)}.`,
  );
}

function tooMany(assetKey: string, total: number): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `This task is made from ${total} partitions of ${assetKey}, more than the ${LIST_MAX} of one ` +
      `list. Go through them with: for await (const each of context.eachUpstream("${assetKey}")).`,
    { details: { asset_key: assetKey, partitions: total, maximum: LIST_MAX } },
  );
}
