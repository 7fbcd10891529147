import type { ReactNode } from "react";
import { Facts, NoValue } from "../../parts/facts.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Lasted } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import type { Split } from "./split-texts.ts";

type TableProgress = Split["backfill"]["tables"][number];

const TABLE_COLUMNS: readonly Column<TableProgress>[] = [
  { heading: "Table", cell: ({ table }) => <code>{table}</code> },
  { heading: "Rows", cell: ({ rows }) => countText(rows), align: "end" },
  { heading: "Copy", cell: (progress) => <Status state={stateOf(progress)} /> },
  {
    heading: "Up to key",
    cell: ({ cursor }) =>
      cursor === null ? <NoValue /> : <code>{visibleText(cursor.join(", "))}</code>,
  },
];

function stateOf({ cursor, done }: TableProgress): string {
  if (done) return "COPIED";
  return cursor === null ? "PENDING" : "RUNNING";
}

/** Tenants whose rows are counted one by one. */
const TENANTS_SHOWN_MAX = 200;

/** How far the copy of each table is, and whose rows it has. */
export function SplitCopy({ split }: { split: Split }): ReactNode {
  const { backfill } = split;
  const counted = Object.entries(backfill.tenants);
  return (
    <div className="stack">
      <div className="card">
        <Facts
          facts={[
            ["State", <Status key="state" state={backfill.status} />],
            ["Rows copied", countText(backfill.total_rows_copied)],
            [
              "Took",
              backfill.started_at === null ? null : (
                <Lasted key="took" from={backfill.started_at} to={backfill.completed_at} />
              ),
            ],
          ]}
        />
      </div>
      <Table
        label="Copy by table"
        columns={TABLE_COLUMNS}
        rows={backfill.tables}
        keyOf={({ table }) => table}
      />
      {counted.length > 0 && (
        <details>
          <summary>Rows by tenant</summary>
          <Table
            label="Rows by tenant"
            columns={[
              { heading: "Tenant", cell: ([tenant]) => <code>{visibleText(tenant)}</code> },
              { heading: "Rows", cell: ([, rows]) => countText(rows), align: "end" },
            ]}
            rows={counted.slice(0, TENANTS_SHOWN_MAX)}
            keyOf={([tenant]) => tenant}
          />
          {counted.length > TENANTS_SHOWN_MAX && (
            <p className="soft">and {countText(counted.length - TENANTS_SHOWN_MAX)} more</p>
          )}
        </details>
      )}
    </div>
  );
}
