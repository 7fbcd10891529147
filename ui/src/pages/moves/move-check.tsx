import type { ReactNode } from "react";
import { Status } from "../../parts/status.tsx";
import { Table } from "../../parts/table.tsx";
import { counted, countText } from "../../parts/time-text.ts";
import type { Move } from "./move-texts.ts";

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
          label="Misplaced rows"
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
    return "Each segment is compared on both sides when it is copied. Verify compares all again.";
  }
  const found =
    verify_failed === 0 ? "All equal" : `${counted(verify_failed, "segment")} not equal`;
  const left = verify_waiting === 0 ? "" : `; ${counted(verify_waiting, "segment")} to go`;
  return `Requested ${counted(verifications, "time")}. ${found}${left}.`;
}

/** Whether a look was one before anything was copied. */
function isBefore({ phase }: Move): boolean {
  return phase === "survey" || phase === "copy";
}

function Verdict({ move }: { move: Move }): ReactNode {
  const { check } = move;
  if (check.running) return <Status state="RUNNING">checking</Status>;
  if (check.ok === null) return <Status state="PENDING">not checked yet</Status>;
  return check.ok ? (
    <Status state="SUCCEEDED">{isBefore(move) ? "ready to copy" : "all in place"}</Status>
  ) : (
    <Status state="FAILED">{check.misplaced.length > 0 ? "not all in place" : "failed"}</Status>
  );
}

function checkText(move: Move): string {
  const { ok, note, misplaced } = move.check;
  if (ok === null)
    return "All shards are searched for misplaced rows before the first copy and at the end.";
  if (ok && isBefore(move)) return "The tables match, and every row has a target shard.";
  if (ok) return "Every row is on its shard.";
  return note ?? `${counted(misplaced.length, "table")} with misplaced rows.`;
}
