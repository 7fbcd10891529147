import { useQueries } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { AssetDocument, PartitionSummary } from "../../../../src/work/asset/api.ts";
import { call } from "../../api/call.ts";
import { Graph } from "../../parts/graph.tsx";
import { countText } from "../../parts/time-text.ts";
import { assetHref } from "./asset-links.ts";
import { lineageEdges } from "./lineage.ts";
import { summaryState } from "./partition-texts.ts";

/** Assets of which a graph asks at once how they stand: each is a question to the server. */
const STATES_MAX = 60;

/** Assets as boxes, each with how it stands, and lines from what they are made from. */
export function LineageGraph(props: {
  label: string;
  assets: readonly AssetDocument[];
  current?: string | undefined;
}): ReactNode {
  const { label, assets, current } = props;
  const [seen, setSeen] = useState<readonly string[]>([]);
  const isAll = assets.length <= STATES_MAX;
  const inView = new Set(seen);
  const asked = isAll
    ? assets
    : assets.filter(({ asset_key }) => inView.has(asset_key)).slice(0, STATES_MAX);
  const summaries = useQueries({
    queries: asked.map(({ asset_key }) => {
      const input = { params: { asset_key } };
      return {
        queryKey: ["summarizePartitions", input],
        queryFn: ({ signal }: { signal: AbortSignal }): Promise<PartitionSummary> =>
          call("summarizePartitions", { ...input, signal }),
      };
    }),
  });
  const known = new Map(asked.map(({ asset_key }, index) => [asset_key, summaries[index]?.data]));
  const nodes = assets.map(({ asset_key, partition_count }) => {
    const summary = known.get(asset_key);
    return {
      id: asset_key,
      text: asset_key,
      detail:
        partition_count === null ? "not partitioned" : `${countText(partition_count)} partitions`,
      state: summary === undefined ? undefined : summaryState(summary),
      href: assetHref(asset_key),
    };
  });
  return (
    <>
      <Graph
        label={label}
        nodes={nodes}
        edges={lineageEdges(assets)}
        direction="right"
        current={current}
        onSeen={isAll ? undefined : setSeen}
      />
      {!isAll && (
        <p className="soft" role="status">
          The status of {countText(asked.length)} of {countText(assets.length)} assets is shown, of
          those in view.{" "}
          {seen.length > STATES_MAX
            ? "Make the boxes larger, or choose one asset, to see that of the others."
            : "Scroll to see that of the others."}
        </p>
      )}
    </>
  );
}
