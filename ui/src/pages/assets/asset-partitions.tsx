import { type ReactNode, useCallback } from "react";
import { Link } from "wouter";
import type { AssetDocument, PartitionSummary } from "../../../../src/work/asset/api.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Refused } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { countText } from "../../parts/time-text.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { assetHref, newBackfillHref } from "./asset-links.ts";
import { isNarrowMap } from "./map-plan.ts";
import { PartitionMapView } from "./partition-map-view.tsx";
import { PartitionPanel } from "./partition-panel.tsx";
import { STALE_REASONS, STALE_WORDS, summaryParts } from "./partition-texts.ts";

/** How an asset's partitions stand: counts, reasons, the map, and the one that is looked at. */
export function AssetPartitions({ asset }: { asset: AssetDocument }): ReactNode {
  const { asset_key, spec } = asset;
  const [{ partition, from }, setFilter] = useFilters(["partition", "from"]);
  const open = useCallback((key: string) => setFilter("partition", key), [setFilter]);
  const place = useAnswer(
    "listPartitionValues",
    { params: { asset_key }, query: { around: partition, limit: 1 } },
    { enabled: partition !== "" && spec.partitions !== null },
  );
  if (spec.partitions === null) {
    return <PartitionPanel assetKey={asset_key} ordinal={0} onClose={null} />;
  }
  const isNarrow = isNarrowMap(spec.partitions, asset.partition_count ?? 0);
  const ordinal = partition === "" ? null : (place.data?.items[0]?.ordinal ?? null);
  return (
    <div className="stack">
      <Summary assetKey={asset_key} />
      <div className={ordinal !== null && isNarrow ? "assets-beside" : "stack"}>
        <PartitionMapView
          asset={asset}
          definition={spec.partitions}
          marked={ordinal}
          onOpen={open}
          from={Math.max(0, Math.trunc(Number(from)) || 0)}
          onFrom={(first) => setFilter("from", first === 0 ? "" : String(first))}
        />
        {partition !== "" && place.error !== null && <Refused refusal={place.error} />}
        {ordinal !== null && (
          <PartitionPanel assetKey={asset_key} ordinal={ordinal} onClose={() => open("")} />
        )}
      </div>
    </div>
  );
}

function Summary({ assetKey }: { assetKey: string }): ReactNode {
  const summary = useAnswer("summarizePartitions", { params: { asset_key: assetKey } });
  return (
    <Loaded answer={summary}>
      {(counts) => (
        <div className="assets-counts">
          <Progress parts={summaryParts(counts)} total={counts.total} unit="partitions" />
          <StaleReasons assetKey={assetKey} summary={counts} />
        </div>
      )}
    </Loaded>
  );
}

/** Why partitions are stale, each reason with how many and a way to them. */
function StaleReasons(props: { assetKey: string; summary: PartitionSummary }): ReactNode {
  const { assetKey, summary } = props;
  const found = STALE_REASONS.filter((reason) => summary.stale_reasons[reason] > 0);
  if (found.length === 0) {
    return (
      <p className="soft">
        {summary.stale_complete ? "Nothing is stale." : "Nothing checked so far is stale."}
      </p>
    );
  }
  return (
    <p className="assets-reasons">
      {found.map((reason) => {
        const count = countText(summary.stale_reasons[reason]);
        const least = summary.stale_complete ? "" : "at least ";
        return (
          <Link key={reason} href={`${assetHref(assetKey)}?view=list&reason=${reason}`}>
            {reason === "NEVER_MATERIALIZED"
              ? neverMadeText(summary)
              : `${least}${count} ${STALE_WORDS[reason]}`}
          </Link>
        );
      })}
      <Link href={newBackfillHref(assetKey, { stale: "1" })}>Backfill stale partitions</Link>
    </p>
  );
}

/** How many were never made, those that failed by that name; both are counted to the last. */
function neverMadeText({ never_materialized: never, failed }: PartitionSummary): string {
  return [
    never === 0 ? "" : `${countText(never)} ${STALE_WORDS.NEVER_MATERIALIZED}`,
    failed === 0 ? "" : `${countText(failed)} failed`,
  ]
    .filter((part) => part !== "")
    .join(", ");
}
