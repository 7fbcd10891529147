import type { ReactNode } from "react";
import { Loaded } from "../../parts/loaded.tsx";
import { Page } from "../../parts/page.tsx";
import { useAllAssets } from "../assets/use-all-assets.ts";
import { PlanBuilder } from "./create/plan-builder.tsx";
import "./create-backfill.css";

/** Makes a backfill: what to fill, how, and what will come of it before it is made. */
export function CreateBackfill(): ReactNode {
  const list = useAllAssets();
  return (
    <Page title="New backfill" crumbs={[{ text: "Backfills", href: "/backfills" }]}>
      <p className="soft create-intro">
        A backfill makes many partitions of assets, chunk by chunk. Say what to fill; the preview
        shows what will happen before anything does.
      </p>
      <Loaded answer={list}>{({ items }) => <PlanBuilder list={list} listed={items} />}</Loaded>
    </Page>
  );
}
