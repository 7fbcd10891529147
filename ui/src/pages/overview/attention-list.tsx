import { Fragment, type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { AttentionDocument, Concern } from "../../../../src/work/server-api.ts";
import { Time } from "../../parts/time.tsx";
import { countText, momentText } from "../../parts/time-text.ts";
import { causeOf, listOf, splitAtTimes } from "./attention-links.ts";
import { CONCERNS, leastText, lookOfConcern } from "./concerns.ts";

/** As much of one group as is shown until somebody wants more. */
const SHOWN_FIRST = 8;

/** What wants attention, by what is wrong with it. */
export function AttentionList(props: {
  attention: readonly AttentionDocument[];
  counts: Readonly<Record<Concern, number>>;
  /** Whether all was looked at for what is stale. */
  isStaleCounted: boolean;
}): ReactNode {
  return (
    <div className="stack">
      {CONCERNS.map((what) => {
        const items = props.attention.filter((item) => item.what === what);
        if (items.length === 0) return null;
        const isLeast = what === "stale" && !props.isStaleCounted;
        return <Group key={what} {...{ what, items, isLeast }} count={props.counts[what]} />;
      })}
    </div>
  );
}

function Group(props: {
  what: Concern;
  items: readonly AttentionDocument[];
  count: number;
  isLeast: boolean;
}): ReactNode {
  const { what, items, count, isLeast } = props;
  const [isWhole, setIsWhole] = useState(false);
  const { sign, tone, title } = lookOfConcern(what);
  const shown = isWhole ? items : items.slice(0, SHOWN_FIRST);
  const hidden = items.length - shown.length;
  const unlisted = count - items.length;
  return (
    <section className={`overview-group tone-${tone}`} id={what} aria-labelledby={`${what}-title`}>
      <h3 id={`${what}-title`}>
        <span aria-hidden="true" className="overview-sign">
          {sign}
        </span>{" "}
        {title} <span className="overview-count">{leastText(count, isLeast)}</span>
      </h3>
      <ul className="overview-items">
        {shown.map((item) => (
          <Item key={`${item.kind} ${item.id}`} item={item} />
        ))}
      </ul>
      {(hidden > 0 || unlisted > 0) && (
        <p className="overview-more">
          {hidden > 0 && (
            <button type="button" className="button" onClick={() => setIsWhole(true)}>
              Show {countText(hidden)} more
            </button>
          )}
          {unlisted > 0 && (
            <span className="soft">
              {" "}
              {countText(unlisted)} more in <Lists items={items} />.
            </span>
          )}
        </p>
      )}
    </section>
  );
}

/** Links to the lists of the kinds that some items are of. */
function Lists({ items }: { items: readonly AttentionDocument[] }): ReactNode {
  const lists = new Map(items.map((item) => [listOf(item), item.kind]));
  return [...lists].map(([href, kind], place) => (
    <Fragment key={href}>
      {place > 0 && ", "}
      <Link href={href}>{kind === "worker" ? "runs" : `${kind}s`}</Link>
    </Fragment>
  ));
}

function Item({ item }: { item: AttentionDocument }): ReactNode {
  const { kind, id, name, since, what } = item;
  return (
    <li className="overview-item">
      <span className="overview-kind">{kind}</span>
      <Link href={causeOf(item)} className="overview-name" title={name}>
        {name}
      </Link>
      <span className="overview-text">
        {what === "stale" ? (
          <>
            {item.text}{" "}
            <Link href={`/backfills/new?asset=${encodeURIComponent(id)}&stale=1`}>
              Backfill<span className="visually-hidden"> what is stale of {name}</span>
            </Link>
          </>
        ) : (
          <span className="overview-sentence" title={item.text}>
            <Sentence text={item.text} />
          </span>
        )}
      </span>
      <span className="overview-since">{since !== null && <Time at={since} />}</span>
    </li>
  );
}

/** A sentence of the server, with its times as whoever looks reads them. */
function Sentence({ text }: { text: string }): ReactNode {
  return splitAtTimes(text).map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      <time key={part} dateTime={part} title={part}>
        {momentText(part)}
      </time>
    ),
  );
}
