import type { ReactNode } from "react";
import { Link } from "wouter";
import { type Answer, Loaded } from "./loaded.tsx";
import { type Crumb, Page } from "./page.tsx";
import { visibleText } from "./visible-text.ts";

/** The page of one piece of work: its head with its state and actions, and what is on it once it is known. */
export function WorkPage<Work>(props: {
  answer: Answer<Work>;
  /** The list that it is in. */
  list: Crumb;
  title: string;
  /** Shown before the state instead of the title, which stays the window's. */
  heading?: ReactNode;
  state: (work: Work) => ReactNode;
  /** Buttons and links beside the heading. */
  actions?: (work: Work) => ReactNode;
  children: (work: Work) => ReactNode;
}): ReactNode {
  const { answer, list, title, heading = title, state, actions, children } = props;
  const { data } = answer;
  return (
    <Page
      title={title}
      heading={
        <>
          {heading} {data !== undefined && state(data)}
        </>
      }
      crumbs={[list]}
      actions={data === undefined ? undefined : actions?.(data)}
    >
      <Loaded answer={answer}>{children}</Loaded>
    </Page>
  );
}

const LEDGER_VIEWS = {
  events: ["Events", ""],
  why: ["Why", "?view=why"],
  history: ["History", "?view=history"],
} as const;

/** A way of looking at what the ledger has of something. */
export type LedgerView = keyof typeof LEDGER_VIEWS;

/** Where the ledger shows something. */
export function ledgerHref(entity: string, view: LedgerView): string {
  return `/ledger/${encodeURIComponent(entity)}${LEDGER_VIEWS[view][1]}`;
}

/** Buttons to what the ledger has of something. */
export function LedgerButtons(props: { entity: string; views: readonly LedgerView[] }): ReactNode {
  return props.views.map((view) => (
    <Link key={view} href={ledgerHref(props.entity, view)} className="button">
      {LEDGER_VIEWS[view][0]}
    </Link>
  ));
}

/** What work does now and what comes next, in a sentence of the server, with more below it. */
export function WorkNow(props: {
  text: string;
  hasFailed?: boolean;
  children: ReactNode;
}): ReactNode {
  const { text, hasFailed = false, children } = props;
  return (
    <div className={`card stack work-now ${hasFailed ? "work-now-failed" : ""}`}>
      <p className="work-now-text" role="status">
        {visibleText(text)}
      </p>
      {children}
    </div>
  );
}
