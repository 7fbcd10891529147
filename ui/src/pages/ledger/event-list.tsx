import { type ReactNode, useEffect, useMemo, useSyncExternalStore } from "react";
import { Link } from "wouter";
import { Empty, Refused } from "../../parts/notice.tsx";
import { countText } from "../../parts/time-text.ts";
import { EventFeed, type FeedFilter, type FeedShown } from "./event-feed.ts";
import { EventTable } from "./event-table.tsx";

const STATES = {
  loading: "Loading…",
  live: "Live: new events appear on top",
  connecting: "Connecting…",
  paused: "Paused",
  refused: "Not read",
} as const;

/** Events that fit a filter, newest first, followed as they come. */
export function EventList(props: {
  label: string;
  filter: FeedFilter;
  /** Shown when nothing fits. */
  empty: ReactNode;
}): ReactNode {
  const { types, entity, before } = props.filter;
  const feed = useMemo(() => new EventFeed({ types, entity, before }), [types, entity, before]);
  useEffect(() => feed.start(), [feed]);
  const shown = useSyncExternalStore(feed.subscribe, feed.shown);
  const { rows, state, refusal, nextBefore, isLoadingOlder } = shown;
  const isEmpty = rows.length === 0 && state !== "loading" && state !== "refused";
  return (
    <>
      <FollowBar feed={feed} shown={shown} filter={props.filter} />
      {refusal !== null && <Refused refusal={refusal} again={feed.resume} />}
      {isEmpty ? props.empty : rows.length > 0 && <EventTable label={props.label} rows={rows} />}
      {nextBefore !== null && rows.length > 0 && (
        <p>
          <button
            type="button"
            className="button"
            disabled={isLoadingOlder}
            onClick={() => void feed.older()}
          >
            {isLoadingOlder ? "Loading…" : "Show older"}
          </button>
        </p>
      )}
    </>
  );
}

function FollowBar(props: { feed: EventFeed; shown: FeedShown; filter: FeedFilter }): ReactNode {
  const { feed, shown, filter } = props;
  const isFollowing = shown.state === "live" || shown.state === "connecting";
  return (
    <div className="ledger-follow">
      {filter.before !== "" ? (
        <Link href={newestHref(filter)} className="button">
          To the newest
        </Link>
      ) : (
        <button type="button" className="button" onClick={isFollowing ? feed.pause : feed.resume}>
          {isFollowing ? "Pause" : "Live"}
        </button>
      )}
      <span role="status" className="soft">
        {STATES[shown.state]}
      </span>
      <span className="soft">
        {countText(shown.rows.length)} shown
        {shown.received > 0 && `, ${countText(shown.received)} new`}
      </span>
    </div>
  );
}

/** The same events from the newest on. */
function newestHref({ types, entity }: FeedFilter): string {
  const wanted = Object.entries({ types, entity }).filter(([, value]) => value !== "");
  return `/ledger?${new URLSearchParams(wanted).toString()}`;
}

/** What to do where no event fits. */
export function NoEvents({ isFiltered }: { isFiltered: boolean }): ReactNode {
  if (isFiltered) {
    return (
      <Empty title="No event matches these filters.">
        <p>
          Remove a filter, or <Link href="/ledger">see all events</Link>. New matching events appear
          here.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No events yet.">
      <p>
        All changes are recorded here. Publish definitions with <code>pawl deploy</code>, then{" "}
        <Link href="/backfills/new">create a backfill</Link>.
      </p>
    </Empty>
  );
}
