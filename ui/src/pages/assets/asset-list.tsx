import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { AssetDocument } from "../../../../src/work/asset/api.ts";
import { NoValue } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty, Notice } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { assetHref } from "./asset-links.ts";
import "./assets.css";
import { definitionText } from "./partition-texts.ts";
import { SummaryBar } from "./summary-bar.tsx";
import { ASSETS_MAX, useAllAssets } from "./use-all-assets.ts";

/** Assets that are shown at once: each of them asks how its partitions stand. */
const SHOWN_AT_ONCE = 50;

const COLUMNS: readonly Column<AssetDocument>[] = [
  {
    heading: "Asset",
    cell: ({ asset_key, spec }) => (
      <div className="assets-name">
        <Link href={assetHref(asset_key)}>{asset_key}</Link>
        {spec.description !== undefined && <span className="soft">{spec.description}</span>}
      </div>
    ),
  },
  { heading: "Status", cell: ({ asset_key }) => <SummaryBar assetKey={asset_key} /> },
  {
    heading: "Partitions",
    align: "end",
    wideOnly: true,
    cell: ({ partition_count }) => (partition_count === null ? "–" : countText(partition_count)),
  },
  {
    heading: "Partitioned by",
    wideOnly: true,
    cell: ({ spec }) => <span className="soft">{definitionText(spec.partitions)}</span>,
  },
  {
    heading: "Upstream",
    wideOnly: true,
    cell: ({ spec }) => <Upstream keys={spec.upstream.map(({ asset_key }) => asset_key)} />,
  },
  {
    heading: "Published",
    wideOnly: true,
    cell: ({ published_at }) => (
      <span className="assets-when">
        <Time at={published_at} />
      </span>
    ),
  },
];

/** The catalogue of assets. */
export function AssetList(): ReactNode {
  const assets = useAllAssets();
  const [{ search }, setFilter] = useFilters(["search"]);
  const [shownMax, setShownMax] = useState(SHOWN_AT_ONCE);
  return (
    <Page
      title="Assets"
      actions={
        <Link href="/lineage" className="button">
          Lineage
        </Link>
      }
    >
      <Loaded answer={assets}>
        {({ items }) => {
          if (items.length === 0) return <NoAssets />;
          const found = items.filter((asset) => fits(asset, search));
          const shown = found.slice(0, shownMax);
          return (
            <>
              <Search value={search} onChange={(value) => setFilter("search", value)} />
              <p className="soft" role="status">
                {found.length === items.length
                  ? `${countText(items.length)} assets`
                  : `${countText(found.length)} of ${countText(items.length)} assets`}
              </p>
              <Table
                label="Assets"
                columns={COLUMNS}
                rows={shown}
                keyOf={({ asset_key }) => asset_key}
                empty={
                  <Empty title="No asset matches.">
                    <p>The search covers keys, descriptions and labels.</p>
                  </Empty>
                }
              />
              {found.length > shown.length && (
                <p>
                  <button
                    type="button"
                    className="button"
                    onClick={() => setShownMax(shownMax + SHOWN_AT_ONCE)}
                  >
                    Show more
                  </button>
                </p>
              )}
              {items.length >= ASSETS_MAX && assets.hasNextPage && (
                <Notice tone="warn">
                  There are more than {countText(ASSETS_MAX)} assets; the search covers the first
                  ones by key.
                </Notice>
              )}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

function Search({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <div className="filters" role="search">
      <Field label="Search">
        {(control) => (
          <input
            {...control}
            type="search"
            value={value}
            placeholder="key, description, label"
            onChange={(event) => onChange(event.target.value)}
          />
        )}
      </Field>
    </div>
  );
}

/** Every word must be somewhere in what the asset is known by. */
function fits({ asset_key, spec }: AssetDocument, search: string): boolean {
  const labels = Object.entries(spec.labels).map(([name, value]) => `${name}=${value}`);
  const text = [asset_key, spec.description ?? "", ...labels].join("\n").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

const UPSTREAM_SHOWN = 3;

function Upstream({ keys }: { keys: readonly string[] }): ReactNode {
  if (keys.length === 0) return <NoValue />;
  return (
    <span className="assets-upstream">
      {keys.slice(0, UPSTREAM_SHOWN).map((key) => (
        <Link key={key} href={assetHref(key)}>
          {key}
        </Link>
      ))}
      {keys.length > UPSTREAM_SHOWN && (
        <span className="soft">and {keys.length - UPSTREAM_SHOWN} more</span>
      )}
    </span>
  );
}

function NoAssets(): ReactNode {
  return (
    <Empty title="No assets yet.">
      <p>
        Write one in <code>pawl.config.ts</code> with <code>asset("name", …)</code>;{" "}
        <code>pawl start</code>, <code>pawl dev</code> and <code>pawl deploy</code> publish it.
      </p>
    </Empty>
  );
}
