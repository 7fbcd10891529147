import type { ReactNode } from "react";
import { Link } from "wouter";
import type { ListAnswer } from "../api/use-answer.ts";
import { NothingFits } from "./notice.tsx";
import { Page } from "./page.tsx";
import { type Column, ListTable } from "./table.tsx";

/** A list of one kind of work: how to make more, its filters, and a row for each. */
export function WorkList<Row>(props: {
  /** What is listed: `backfill`. */
  noun: string;
  /** Where the list is without filters. */
  href: string;
  /** What makes another; a link or a button. */
  actions?: ReactNode;
  filters: ReactNode;
  isFiltered: boolean;
  list: ListAnswer<Row>;
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string;
  /** Shown where there is none at all. */
  none: ReactNode;
}): ReactNode {
  const { noun, href, isFiltered, none } = props;
  const title = `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s`;
  return (
    <Page title={title} actions={props.actions}>
      {props.filters}
      <ListTable
        label={title}
        list={props.list}
        columns={props.columns}
        keyOf={props.keyOf}
        empty={isFiltered ? <NothingFits noun={noun} all={href} /> : none}
      />
    </Page>
  );
}

/** The link to where another is made. */
export function NewLink({ href, children }: { href: string; children: ReactNode }): ReactNode {
  return (
    <Link href={href} className="button button-primary">
      {children}
    </Link>
  );
}
