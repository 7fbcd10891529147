import { Fragment, type ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { AssetLinks, Facts, Id, Json, labelsText } from "../../parts/facts.tsx";
import { counted } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { type Backfill, backfillHref, selectorText } from "./backfill-texts.ts";

/** How a backfill was made, and what it is related to. */
export function BackfillFacts({ backfill }: { backfill: Backfill }): ReactNode {
  const query = { parent_backfill_id: backfill.backfill_id, limit: 20 };
  const retries = useList("listBackfills", { query });
  const children = retries.data?.items.map(({ backfill_id }) => backfill_id) ?? [];
  const { parent_backfill_id: parent, after_backfill_id: after, failure_limit: limit } = backfill;
  return (
    <div className="stack">
      <Facts
        facts={[
          ["Backfill", <code key="id">{backfill.backfill_id}</code>],
          ["State version", backfill.state_version],
          ["Assets", <AssetLinks key="assets" assets={backfill.asset_selection} />],
          ["Partitions", selectorText(backfill.partition_selector)],
          ["Chunk size", counted(backfill.chunk_size, "key")],
          ["Concurrent runs", backfill.max_concurrent_runs],
          ["Order", backfill.order],
          ["Priority", backfill.priority],
          ["Failure limit", limit === null ? null : limitText(limit)],
          ["Window", backfill.window],
          [
            "Starts at",
            backfill.start_at === null ? null : <Moment key="start" at={backfill.start_at} />,
          ],
          ["Created", <Moment key="created" at={backfill.created_at} />],
          ["Created by", backfill.created_by],
          ["Started", <Moment key="started" at={backfill.started_at} />],
          ["Ended", <Moment key="ended" at={backfill.finished_at} />],
          ["Code version", backfill.code_version],
          ["Retry of", parent === null ? null : <Links ids={[parent]} />],
          ["Retries", children.length === 0 ? null : <Links ids={children} />],
          ["Starts after", after === null ? null : <Links ids={[after]} />],
          [
            "Followed by",
            backfill.followers.length === 0 ? null : <Links ids={backfill.followers} />,
          ],
          ["Labels", labelsText(backfill.labels)],
        ]}
      />
      {backfill.config !== null && <Json value={backfill.config} label="Configuration" />}
    </div>
  );
}

function limitText(limit: NonNullable<Backfill["failure_limit"]>): string {
  return "count" in limit ? counted(limit.count, "partition") : `${limit.percent} %`;
}

function Links({ ids }: { ids: readonly string[] }): ReactNode {
  return ids.map((id, place) => (
    <Fragment key={id}>
      {place > 0 && ", "}
      <Link href={backfillHref(id)}>
        <Id id={id} />
      </Link>
    </Fragment>
  ));
}
