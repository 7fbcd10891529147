import type { ReactNode } from "react";
import { Status } from "../../parts/status.tsx";
import { Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { counted, type Move } from "./move-texts.ts";

/** What comparisons found, and whether every row is on the shard where it belongs. */
export function MoveCheck({ move }: { move: Move }): ReactNode {
  const { check } = move;
  return (
    <div className="card stack">
      <p>{comparedText(move)}</p>
      <p>
        <Verdict move={move} /> {checkText(move)}
      </p>
      {check.excepted > 0 && (
        <p className="soft">{counted(check.excepted, "row")} of excluded segments left out.</p>
      )}
      {check.misplaced.length > 0 && (
        <Table
          label="Rows where they do not belong"
          columns={[
            { heading: "Shard", cell: ({ shard }) => <code>{shard}</code> },
            { heading: "Table", cell: ({ table }) => <code>{table}</code> },
            { heading: "Rows", cell: ({ rows }) => countText(rows), align: "end" },
          ]}
          rows={check.misplaced.slice(0, 200)}
          keyOf={({ shard, table }) => `${shard}.${table}`}
        />
      )}
    </div>
  );
}

function comparedText({ verifications, verify_waiting, verify_failed }: Move): string {
  if (verifications === 0) {
    return "Each segment is compared on both sides when it is copied. Verify compares them again.";
  }
  const found =
    verify_failed === 0
      ? "All were found equal"
      : `${counted(verify_failed, "segment")} not found equal`;
  const left = verify_waiting === 0 ? "" : `; ${counted(verify_waiting, "segment")} to go`;
  return `Asked for ${counted(verifications, "time")}. ${found}${left}.`;
}

/** Whether a look was one before anything was copied. */
function isBefore({ phase }: Move): boolean {
  return phase === "survey" || phase === "copy";
}

function Verdict({ move }: { move: Move }): ReactNode {
  const { check } = move;
  if (check.running) return <Status state="RUNNING">being looked at</Status>;
  if (check.ok === null) return <Status state="PENDING">not looked at yet</Status>;
  return check.ok ? (
    <Status state="SUCCEEDED">{isBefore(move) ? "nothing in the way" : "all in place"}</Status>
  ) : (
    <Status state="FAILED">{check.misplaced.length > 0 ? "not all in place" : "not good"}</Status>
  );
}

function checkText(move: Move): string {
  const { ok, note, misplaced } = move.check;
  if (ok === null)
    return "Before the first copy and at the end all shards are searched for rows that are not where they belong.";
  if (ok && isBefore(move)) return "The tables are alike, and there is a place for every row.";
  if (ok) return "Every row is where it belongs.";
  return note ?? `${counted(misplaced.length, "place")} with rows that do not belong there.`;
}
