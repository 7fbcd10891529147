import type { ReactNode } from "react";
import { Link, useParams } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText } from "../../parts/time-text.ts";
import { useFilters } from "../../parts/use-filters.ts";
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
    <Page
      title={`Backfill${name}`}
      heading={
        <>
          Backfill{name}{" "}
          {answer.data !== undefined && <Status state={answer.data.display_status} />}
        </>
      }
      crumbs={[{ text: "Backfills", href: "/backfills" }]}
      actions={answer.data !== undefined && <BackfillActions backfill={answer.data} />}
    >
      <Loaded answer={answer}>{(backfill) => <Shown backfill={backfill} />}</Loaded>
    </Page>
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
        title="About it"
        actions={
          <>
            <Link href={`/ledger/${encodeURIComponent(backfill.backfill_id)}?view=history`}>
              History
            </Link>
            <Link href={`/runs?backfill_id=${encodeURIComponent(backfill.backfill_id)}`}>
              Its runs
            </Link>
          </>
        }
      >
        <BackfillFacts backfill={backfill} />
      </Section>
    </>
  );
}
