import type { ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { NoValue } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { useShards } from "../../parts/use-shards.ts";
import { NewLink, WorkList } from "../../parts/work-list.tsx";
import { type ListedMove, moveName, segmentParts, STATE_OPTIONS } from "./move-texts.ts";
import "./moves.css";

const COLUMNS: readonly Column<ListedMove>[] = [
  {
    heading: "Move",
    cell: (move) => (
      <>
        <Link href={`/moves/${move.move_id}`}>{moveName(move)}</Link>
        {move.dry_run && <span className="soft"> (dry run)</span>}
      </>
    ),
  },
  { heading: "State", cell: ({ state }) => <Status state={state} /> },
  { heading: "Phase", cell: ({ phase }) => phase, wideOnly: true },
  {
    heading: "Segments",
    cell: (move) => (
      <Progress parts={segmentParts(move)} total={move.segments_total} unit="segments" />
    ),
  },
  {
    heading: "Rows copied",
    cell: ({ rows_copied }) => countText(rows_copied),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Quarantined",
    cell: ({ segments_poisoned: count }) =>
      count === 0 ? <NoValue /> : <Status state="POISONED">{countText(count)}</Status>,
    align: "end",
  },
  { heading: "Planned", cell: ({ created_at }) => <Time at={created_at} />, wideOnly: true },
];

const FIELDS = [
  { name: "status", label: "State", options: [["", "All"], ...STATE_OPTIONS] },
] as const;

/** All moves, newest first, and the way to plan one. */
export function MoveList(): ReactNode {
  const [{ status }, setFilter] = useFilters(["status"]);
  const query = queryOf({ status });
  const list = useList("listMoves", { query }, { keepPrevious: true });
  return (
    <WorkList
      noun="move"
      href="/moves"
      actions={<NewLink href="/moves/new">Plan a move</NewLink>}
      filters={<Filters of="moves" filters={{ status }} setFilter={setFilter} fields={FIELDS} />}
      isFiltered={status !== ""}
      list={list}
      columns={COLUMNS}
      keyOf={({ move_id }) => move_id}
      none={<NoMoves />}
    />
  );
}

function NoMoves(): ReactNode {
  const shards = useShards();
  return (
    <Empty title={shards === null ? "No shards yet." : "No moves yet."}>
      <p>
        A move takes rows that nobody writes to from one shard layout to another.{" "}
        {shards === null ? (
          <>
            Define your shards in <code>pawl.config.ts</code> with <code>shards()</code>.
          </>
        ) : (
          <>
            <Link href="/moves/new">Plan one here</Link>, or with <code>pawl move plan</code>. For
            tenants with live writes, use a <Link href="/splits">split</Link>.
          </>
        )}
      </p>
    </Empty>
  );
}
