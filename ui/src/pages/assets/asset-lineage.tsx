import type { ReactNode } from "react";
import { Link } from "wouter";
import type { AssetDocument } from "../../../../src/work/asset/api.ts";
import type { PartitionMapping } from "../../../../src/kernel/keyspace/mapping.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { assetHref } from "./asset-links.ts";
import { LineageGraph } from "./lineage-graph.tsx";
import { lineageEdges, lineageOf } from "./lineage.ts";
import { SummaryBar } from "./summary-bar.tsx";
import { useAllAssets } from "./use-all-assets.ts";

type Neighbour = { asset_key: string; mapping: PartitionMapping };

const COLUMNS: readonly Column<Neighbour>[] = [
  {
    heading: "Asset",
    cell: ({ asset_key }) => <Link href={assetHref(asset_key)}>{asset_key}</Link>,
  },
  { heading: "Which partitions", cell: ({ mapping }) => mappingText(mapping) },
  { heading: "Status", cell: ({ asset_key }) => <SummaryBar assetKey={asset_key} /> },
];

/** What an asset is made from and what is made from it. */
export function AssetLineage({ asset }: { asset: AssetDocument }): ReactNode {
  const { asset_key, spec } = asset;
  const assets = useAllAssets();
  return (
    <Loaded answer={assets}>
      {({ items }) => {
        const own = lineageOf(asset_key, lineageEdges(items));
        const downstream = items.flatMap((other): Neighbour[] =>
          other.spec.upstream
            .filter((upstream) => upstream.asset_key === asset_key)
            .map(({ mapping }) => ({ asset_key: other.asset_key, mapping })),
        );
        return (
          <>
            <LineageGraph
              label={`Lineage of ${asset_key}`}
              assets={items.filter((other) => own.has(other.asset_key))}
              current={asset_key}
            />
            <Section title="Upstream">
              <Neighbours label="Upstream assets" rows={spec.upstream} none="Nothing upstream." />
            </Section>
            <Section title="Downstream">
              <Neighbours label="Downstream assets" rows={downstream} none="Nothing downstream." />
            </Section>
          </>
        );
      }}
    </Loaded>
  );
}

function Neighbours(props: { label: string; rows: readonly Neighbour[]; none: string }): ReactNode {
  return (
    <Table
      label={props.label}
      columns={COLUMNS}
      rows={props.rows}
      keyOf={({ asset_key, mapping }) => `${asset_key} ${JSON.stringify(mapping)}`}
      empty={<p className="soft">{props.none}</p>}
    />
  );
}

function mappingText(mapping: PartitionMapping): string {
  switch (mapping.type) {
    case "identity":
      return "each from the one with the same key";
    case "all":
      return "each from all";
    case "offset":
      return `each from the one ${Math.abs(mapping.by)} ${mapping.by < 0 ? "before" : "after"}`;
    case "dimension":
      return `each from those with the same ${mapping.dimension}`;
    case "table":
      return `by a table of ${Object.keys(mapping.map).length} keys`;
    default: {
      const { start_offset, end_offset } = mapping;
      const isMoved = start_offset !== 0 || end_offset !== 0;
      const moved = isMoved ? `, from ${start_offset} to ${end_offset} further` : "";
      return `each from those of the same time${moved}`;
    }
  }
}
