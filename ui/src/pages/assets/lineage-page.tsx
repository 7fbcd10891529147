import type { ReactNode } from "react";
import { Link } from "wouter";
import { Choice } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { LineageGraph } from "./lineage-graph.tsx";
import { lineageEdges, lineageOf } from "./lineage.ts";
import { useAllAssets } from "./use-all-assets.ts";

/** What is made from what: all assets, or those that one of them has to do with. */
export function LineagePage(): ReactNode {
  const assets = useAllAssets();
  const [{ asset }, setFilter] = useFilters(["asset"]);
  return (
    <Page title="Lineage" crumbs={[{ text: "Assets", href: "/assets" }]}>
      <Loaded answer={assets}>
        {({ items }) => {
          if (items.length === 0) {
            return (
              <Empty title="No assets yet.">
                <p>
                  <Link href="/assets">The catalogue</Link> says how to publish one.
                </p>
              </Empty>
            );
          }
          const own = asset === "" ? null : lineageOf(asset, lineageEdges(items));
          const shown = items.filter(({ asset_key }) => own?.has(asset_key) ?? true);
          const keys = items.map(({ asset_key }) => asset_key);
          return (
            <>
              <div className="filters">
                <Choice
                  label="Show"
                  value={asset}
                  options={[["", "All"], ...keys.map((key) => [key, key] as const)]}
                  onChange={(value) => setFilter("asset", value)}
                />
              </div>
              <LineageGraph
                label={asset === "" ? "Lineage of all assets" : `Lineage of ${asset}`}
                assets={shown}
                current={asset === "" ? undefined : asset}
              />
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
