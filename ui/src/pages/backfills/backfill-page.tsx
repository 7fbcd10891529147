import type { ReactNode } from "react";
import { Link, useParams } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Notice } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText } from "../../parts/time-text.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { ledgerHref, WorkPage } from "../../parts/work-page.tsx";
import { someText } from "../runs/run-texts.ts";
import { BackfillActions } from "./backfill-actions.tsx";
import { BackfillFacts } from "./backfill-facts.tsx";
import { BackfillProgress } from "./backfill-progress.tsx";
import { type Backfill, backfillHref, selectorText } from "./backfill-texts.ts";
import { ChunkList } from "./chunk-list.tsx";
import { ChunkMap } from "./chunk-map.tsx";
import { ChunkPanel } from "./chunk-panel.tsx";
import { Failures } from "./failures.tsx";
import "./backfills.css";

/** One backfill: how far it is, what failed, and what can be done about it. */
export function BackfillPage(): ReactNode {
  const { backfill_id = "" } = useParams();
  const params = { backfill_id };
  const answer = useAnswer("getBackfill", { params });
  // Asked for at the same time, so that the map need not wait for what is above it.
  const [{ view }] = useFilters(["view"]);
  useAnswer("mapChunks", { params }, { enabled: view !== "list" });
  const name = answer.data === undefined ? "" : ` of ${someText(answer.data.asset_selection)}`;
  return (
    <WorkPage
      answer={answer}
      list={{ text: "Backfills", href: "/backfills" }}
      title={`Backfill${name}`}
      state={({ display_status }) => <Status state={display_status} />}
      actions={(backfill) => <BackfillActions backfill={backfill} />}
    >
      {(backfill) => <Shown backfill={backfill} />}
    </WorkPage>
  );
}

function Shown({ backfill }: { backfill: Backfill }): ReactNode {
  const { partition_selector, display_status, reason } = backfill;
  const [{ view, chunk }, setFilter] = useFilters(["view", "chunk"]);
  const href = backfillHref(backfill.backfill_id);
  const index = /^\d+$/.test(chunk) ? Number(chunk) : null;
  const open = (at: number | null): void => setFilter("chunk", at === null ? "" : String(at));
  return (
    <>
      <p className="soft">{selectorText(partition_selector)}</p>
      {reason !== null && (
        <Notice tone="warn">
          <strong>{display_status.toLowerCase().replaceAll("_", " ")}:</strong> {reason}
        </Notice>
      )}
      <BackfillProgress backfill={backfill} />
      {backfill.chunks_failed > 0 && <Failures backfill={backfill} />}
      <Section title={`Chunks (${countText(backfill.total_chunks)})`}>
        <Tabs
          label="Views of the chunks"
          tabs={[
            { text: "Map", href, isCurrent: view !== "list" },
            { text: "List", href: `${href}?view=list`, isCurrent: view === "list" },
          ]}
        />
        {view !== "list" && <ChunkMap backfill={backfill} marked={index} onOpen={open} />}
        {index !== null && (
          <ChunkPanel backfill={backfill} index={index} close={() => open(null)} />
        )}
        {view === "list" && <ChunkList backfill={backfill} />}
      </Section>
      <Section
        title="Details"
        actions={
          <>
            <Link href={ledgerHref(backfill.backfill_id, "history")}>History</Link>
            <Link href={`/runs?backfill_id=${encodeURIComponent(backfill.backfill_id)}`}>Runs</Link>
          </>
        }
      >
        <BackfillFacts backfill={backfill} />
      </Section>
    </>
  );
}
