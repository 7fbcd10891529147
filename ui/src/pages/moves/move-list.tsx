import type { ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { useShards } from "../../parts/use-shards.ts";
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
    heading: "Set aside",
    cell: ({ segments_poisoned: count }) =>
      count === 0 ? (
        <span className="soft">–</span>
      ) : (
        <Status state="POISONED">{countText(count)}</Status>
      ),
    align: "end",
  },
  { heading: "Planned", cell: ({ created_at }) => <Time at={created_at} />, wideOnly: true },
];

/** All moves, newest first, and the way to plan one. */
export function MoveList(): ReactNode {
  const [{ status }, setFilter] = useFilters(["status"]);
  const query = status === "" ? {} : { status };
  const list = useList("listMoves", { query }, { keepPrevious: true });
  return (
    <Page
      title="Moves"
      actions={
        <Link href="/moves/new" className="button button-primary">
          Plan a move
        </Link>
      }
    >
      <div className="filters">
        <Choice
          label="State"
          value={status}
          options={[["", "Any"], ...STATE_OPTIONS]}
          onChange={(value) => setFilter("status", value)}
        />
      </div>
      <ListTable
        label="Moves"
        list={list}
        columns={COLUMNS}
        keyOf={({ move_id }) => move_id}
        empty={status === "" ? <NoMoves /> : <Empty title="No move is in that state." />}
      />
    </Page>
  );
}

function NoMoves(): ReactNode {
  const shards = useShards();
  return (
    <Empty title={shards === null ? "There are no shards yet." : "No move was planned yet."}>
      <p>
        A move brings rows at rest from one layout over shards to another.{" "}
        {shards === null ? (
          <>
            Say in <code>pawl.config.ts</code> which shards there are, with <code>shards()</code>.
          </>
        ) : (
          <>
            <Link href="/moves/new">Plan one here</Link>, or with <code>pawl move plan</code>. For
            tenants that are written to meanwhile there are <Link href="/splits">splits</Link>.
          </>
        )}
      </p>
    </Empty>
  );
}
