import type { ReactNode } from "react";
import type { ListAnswer } from "../api/use-answer.ts";
import { Loaded } from "./loaded.tsx";
import { visibleValue } from "./visible-text.ts";

/** A column of a table. */
export type Column<Row> = {
  heading: string;
  cell: (row: Row) => ReactNode;
  /** Numbers stand at the end of their column. */
  align?: "end";
  /** Left out where the window is narrow. */
  wideOnly?: boolean;
};

/** Rows under headings; the first column names its row. Wide ones scroll by themselves. */
export function Table<Row>(props: {
  /** What the table is, for those who cannot see it. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string | number;
  /** Shown instead when there are no rows. */
  empty?: ReactNode;
}): ReactNode {
  const { label, columns, rows, keyOf, empty } = props;
  if (rows.length === 0 && empty !== undefined) return empty;
  return (
    // A region that scrolls has to be reached by the keyboard too.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.heading} scope="col" className={classOf(column)}>
                {column.heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column, index) =>
                index === 0 ? (
                  <th key={column.heading} scope="row" className={classOf(column)}>
                    {visibleValue(column.cell(row))}
                  </th>
                ) : (
                  <td key={column.heading} className={classOf(column)}>
                    {visibleValue(column.cell(row))}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf<Row>({ align, wideOnly }: Column<Row>): string {
  return [align === "end" ? "align-end" : "", wideOnly === true ? "wide-only" : ""]
    .join(" ")
    .trim();
}

/** A list of the API as a table, with more of it on demand. */
export function ListTable<Row>(props: {
  label: string;
  list: ListAnswer<Row>;
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string | number;
  empty: ReactNode;
}): ReactNode {
  const { label, list, columns, keyOf, empty } = props;
  return (
    <Loaded answer={list}>
      {({ items }) => (
        <>
          <Table
            label={label}
            columns={columns}
            rows={items}
            keyOf={keyOf}
            {...(list.hasNextPage ? {} : { empty })}
          />
          <More list={list} />
        </>
      )}
    </Loaded>
  );
}

/** Asks for the next page of a list, where there is one. */
export function More({ list }: { list: ListAnswer<unknown> }): ReactNode {
  if (!list.hasNextPage) return null;
  return (
    <p>
      <button
        type="button"
        className="button"
        disabled={list.isFetchingNextPage}
        onClick={() => void list.fetchNextPage()}
      >
        {list.isFetchingNextPage ? "Loading…" : "Show more"}
      </button>
    </p>
  );
}
