import { memo, type MouseEvent, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import type { EventDocument } from "../../../../src/work/server-api.ts";
import { Moment } from "../../parts/time.tsx";
import { clippedText } from "../../parts/visible-text.ts";
import { eventLinks } from "./event-links.ts";
import { eventSentence } from "./event-sentence.ts";
import { isTrouble } from "./is-trouble.ts";

/** Links that a row has room for; the event itself has all. */
const LINKS_IN_ROW = 4;

/** Events under each other; a row that is there already is not made again when others come. */
export function EventTable(props: { label: string; rows: readonly EventDocument[] }): ReactNode {
  const [, go] = useLocation();
  const follow = (event: MouseEvent): void => {
    const link = (event.target as Element).closest("a");
    const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (link === null || !isPlain || event.altKey) return;
    event.preventDefault();
    go(link.getAttribute("href") ?? "");
  };
  return (
    // A region that scrolls has to be reached by the keyboard too.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" role="region" aria-label={props.label} tabIndex={0}>
      {/* The table follows the links in it: thousands that each listen to the address are slow. */}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/click-events-have-key-events */}
      <table className="ledger-table" onClick={follow}>
        <thead>
          <tr>
            <th scope="col" className="ledger-pos">
              Position
            </th>
            <th scope="col" className="ledger-time">
              Time
            </th>
            <th scope="col">Event</th>
            <th scope="col" className="ledger-who wide-only">
              Who
            </th>
          </tr>
        </thead>
        <tbody>
          {props.rows.map((event) => (
            <EventRow key={event.pos} event={event} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const EventRow = memo(function EventRow({ event }: { event: EventDocument }): ReactNode {
  return (
    <tr>
      <th scope="row" className="ledger-pos">
        <a href={`/ledger/${event.pos}`}>{event.pos}</a>
      </th>
      <td className="ledger-time">
        <Moment at={event.occurred_at} />
      </td>
      <td>
        <div className="ledger-head">
          <EventName event={event} />
          <PlainLinks event={event} />
        </div>
        <div className="ledger-sentence">{eventSentence(event)}</div>
      </td>
      <td className="ledger-who wide-only">{clippedText(event.actor.principal, 60)}</td>
    </tr>
  );
});

/** The type of an event, with a sign when it tells of something that went wrong. */
export function EventName({ event }: { event: EventDocument }): ReactNode {
  if (!isTrouble(event)) return <span className="ledger-type">{event.type}</span>;
  return (
    <span className="ledger-type ledger-trouble">
      <span aria-hidden="true">✕ </span>
      {event.type}
    </span>
  );
}

function PlainLinks({ event }: { event: EventDocument }): ReactNode {
  const links = eventLinks(event).slice(0, LINKS_IN_ROW);
  if (links.length === 0) return null;
  return (
    <div className="ledger-links">
      {links.map(({ kind, id, text, href }) => (
        <a key={`${kind} ${id}`} href={href}>
          {text}
        </a>
      ))}
    </div>
  );
}

/** What an event names, as links. */
export function EventLinks({ event }: { event: EventDocument }): ReactNode {
  const links = eventLinks(event);
  if (links.length === 0) return null;
  return (
    <ul className="ledger-links">
      {links.map(({ kind, id, text, href }) => (
        <li key={`${kind} ${id}`}>
          <Link href={href}>{text}</Link>
        </li>
      ))}
    </ul>
  );
}
