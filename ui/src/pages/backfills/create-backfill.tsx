import { type ReactNode, useEffect } from "react";
import { useList } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Page } from "../../parts/page.tsx";
import { PlanBuilder } from "./create/plan-builder.tsx";
import "./create-backfill.css";

/** Assets that are looked for without being asked to. */
const ASSETS_MAX = 5_000;

/** Makes a backfill: what to fill, how, and what will come of it before it is made. */
export function CreateBackfill(): ReactNode {
  const list = useList("listAssets", { query: { limit: 200 } });
  const { data, hasNextPage, isFetching, fetchNextPage } = list;
  const count = data?.items.length ?? 0;
  useEffect(() => {
    // What is searched for may be on any page.
    if (hasNextPage && !isFetching && count < ASSETS_MAX) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage, count]);
  return (
    <Page title="New backfill" crumbs={[{ text: "Backfills", href: "/backfills" }]}>
      <p className="soft create-intro">
        A backfill makes many partitions of assets, chunk by chunk. Say what to fill; the preview
        shows what will happen before anything does.
      </p>
      <Loaded answer={list}>{({ items }) => <PlanBuilder list={list} assets={items} />}</Loaded>
    </Page>
  );
}
