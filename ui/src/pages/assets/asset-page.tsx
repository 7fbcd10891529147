import type { ReactNode } from "react";
import { Link, useParams } from "wouter";
import type { AssetDocument } from "../../../../src/work/asset/api.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts, Json } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { AddKeys, dynamicDimensions } from "./add-keys.tsx";
import { assetHref, newBackfillHref } from "./asset-links.ts";
import { AssetLineage } from "./asset-lineage.tsx";
import "./assets.css";
import { AssetNumbersView } from "./asset-numbers.tsx";
import { AssetPartitions } from "./asset-partitions.tsx";
import { PartitionList } from "./partition-list.tsx";
import { definitionText } from "./partition-texts.ts";

/** One asset: its partitions, where it stands among others, how it is defined. */
export function AssetPage(): ReactNode {
  const { asset_key: key } = useParams<{ asset_key: string }>();
  const assetKey = decoded(key);
  const asset = useAnswer("getAsset", { params: { asset_key: assetKey } });
  const dimensions = dynamicDimensions(asset.data?.spec.partitions ?? null);
  return (
    <Page
      title={assetKey}
      crumbs={[{ text: "Assets", href: "/assets" }]}
      actions={
        <>
          {dimensions.length > 0 && <AddKeys assetKey={assetKey} dimensions={dimensions} />}
          <Link
            href={`/runs?${new URLSearchParams({ asset: assetKey }).toString()}`}
            className="button"
          >
            Runs
          </Link>
          <Link href={newBackfillHref(assetKey, {})} className="button button-primary">
            New backfill
          </Link>
        </>
      }
    >
      <Loaded answer={asset}>
        {(document) => <AssetBody key={document.asset_key} asset={document} />}
      </Loaded>
    </Page>
  );
}

/** Whether the router has decoded the address already depends on what is in it. */
function decoded(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

function AssetBody({ asset }: { asset: AssetDocument }): ReactNode {
  const [{ view }] = useFilters(["view"]);
  const { asset_key, spec } = asset;
  const views = [
    ["", "Partitions"],
    ...(spec.partitions === null
      ? []
      : [["list", "List"] as const, ["numbers", "Numbers"] as const]),
    ["lineage", "Lineage"],
    ["definition", "Definition"],
  ] as const;
  return (
    <>
      {spec.description !== undefined && <p className="assets-description">{spec.description}</p>}
      <AssetFacts asset={asset} />
      <Tabs
        label="Views of the asset"
        tabs={views.map(([name, text]) => {
          const href = assetHref(asset_key) + (name === "" ? "" : `?view=${name}`);
          const word = name === "" && spec.partitions === null ? "Status" : text;
          return { text: word, href, isCurrent: view === name };
        })}
      />
      {view === "list" ? (
        <PartitionList assetKey={asset_key} />
      ) : view === "numbers" ? (
        <AssetNumbersView assetKey={asset_key} />
      ) : view === "lineage" ? (
        <AssetLineage asset={asset} />
      ) : view === "definition" ? (
        <Json value={spec} label={`Definition of ${asset_key}`} />
      ) : (
        <AssetPartitions asset={asset} />
      )}
    </>
  );
}

function AssetFacts({ asset }: { asset: AssetDocument }): ReactNode {
  const { spec, partition_count, code_version } = asset;
  const { freshness, pool, retry, requires } = spec;
  const labels = Object.entries(spec.labels).map(([name, value]) => `${name}=${value}`);
  return (
    <Facts
      facts={[
        ["Partitioned by", definitionText(spec.partitions)],
        ["Partitions", partition_count === null ? null : countText(partition_count)],
        [
          "Upstream",
          spec.upstream.length === 0
            ? "none"
            : `${spec.upstream.length} ${spec.upstream.length === 1 ? "asset" : "assets"}`,
        ],
        [
          "Requires",
          requires === undefined ? null : `${requires.upstream} upstream, or ${requires.otherwise}`,
        ],
        ["Code version", code_version],
        [
          "Stale after",
          freshness === null ? null : durationText(freshness.maximum_lag_minutes * 60_000),
        ],
        ["Attempts", retry.max_attempts === null ? "unlimited" : countText(retry.max_attempts)],
        ["Pool", pool],
        ["Labels", labels.join(", ")],
        [
          "Published",
          <>
            <Time at={asset.published_at} /> by {asset.origin === "code" ? "code" : "the API"}
          </>,
        ],
      ]}
    />
  );
}
