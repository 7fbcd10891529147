import type { ReactNode } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { RunLink } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Lasted, Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { type Backfill, backfillHref, type Chunk, chunkKeys } from "./backfill-texts.ts";

const STATES = [
  ["", "All"],
  ["PENDING", "pending"],
  ["PLANNED,RUNNING", "in progress"],
  ["SUCCEEDED", "succeeded"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
  ["SPLIT", "split"],
] as const;

const FIELDS = [{ name: "status", label: "Chunk state", options: STATES }] as const;

/** The chunks of a backfill as a table. */
export function ChunkList({ backfill }: { backfill: Backfill }): ReactNode {
  const [{ status, from }, setFilter] = useFilters(["status", "from"]);
  const query = {
    ...queryOf({ status }),
    ...(/^\d+$/.test(from) ? { from: Number(from) } : {}),
  };
  const params = { backfill_id: backfill.backfill_id };
  const list: ListAnswer<Chunk> = useList("listChunks", { params, query }, { keepPrevious: true });
  return (
    <>
      <Filters of="chunks" filters={{ status }} setFilter={setFilter} fields={FIELDS}>
        <Field label="From chunk">
          {(control) => (
            <input
              {...control}
              type="number"
              min={0}
              value={from}
              onChange={(event) => setFilter("from", event.target.value)}
            />
          )}
        </Field>
      </Filters>
      <ListTable
        label="Chunks"
        list={list}
        columns={COLUMNS}
        keyOf={({ chunk_index }) => chunk_index}
        empty={<Empty title="No chunk matches these filters." />}
      />
    </>
  );
}

const COLUMNS: Column<Chunk>[] = [
  {
    heading: "Chunk",
    cell: ({ backfill_id, chunk_index }) => (
      <Link href={`${backfillHref(backfill_id)}?view=list&chunk=${chunk_index}`}>
        {countText(chunk_index)}
      </Link>
    ),
  },
  { heading: "State", cell: ({ state }) => <Status state={state} /> },
  { heading: "Partitions", cell: (chunk) => chunkKeys(chunk) },
  {
    heading: "Count",
    cell: ({ partitions }) => countText(partitions),
    align: "end",
    wideOnly: true,
  },
  { heading: "Planned", cell: ({ planned_at }) => <Time at={planned_at} />, wideOnly: true },
  {
    heading: "Took",
    cell: ({ planned_at, finished_at }) => <Lasted from={planned_at} to={finished_at} />,
    align: "end",
    wideOnly: true,
  },
  { heading: "Run", cell: ({ run_id }) => <RunLink runId={run_id} />, wideOnly: true },
];
