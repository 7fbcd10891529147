import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { EventDocument } from "../../../../src/work/server-api.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Json } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { clippedText } from "../../parts/visible-text.ts";
import { aboutPartition, eventSentence } from "./event-sentence.ts";
import { EventLinks, EventName } from "./event-table.tsx";
import { isTrouble } from "./is-trouble.ts";

/** Of a long chain its beginning and its end are shown first: the cause, and where it led. */
const FIRST_SHOWN = 20;
const LAST_SHOWN = 80;

/** How something came to where it stands, event by event, the oldest first. */
export function WhyChain({ entity }: { entity: string }): ReactNode {
  const answer = useAnswer("explainEntity", { query: { entity } });
  return (
    <Loaded answer={answer}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="No events yet.">
            <p>Nothing is recorded about it yet.</p>
          </Empty>
        ) : (
          <Chain events={items} entity={entity} />
        )
      }
    </Loaded>
  );
}

function Chain(props: { events: readonly EventDocument[]; entity: string }): ReactNode {
  const { events, entity } = props;
  const [isWhole, setIsWhole] = useState(false);
  const folded = isWhole ? 0 : events.length - FIRST_SHOWN - LAST_SHOWN;
  const first = folded > 0 ? events.slice(0, FIRST_SHOWN) : events;
  const last = folded > 0 ? events.slice(-LAST_SHOWN) : [];
  return (
    <ol className="ledger-chain" aria-label="Events that led here, oldest first">
      {first.map((event, index) => (
        <Step key={event.pos} event={event} entity={entity} before={events[index - 1]} />
      ))}
      {folded > 0 && (
        <li className="ledger-fold">
          <button type="button" className="button" onClick={() => setIsWhole(true)}>
            Show {countText(folded)} events in between
          </button>
        </li>
      )}
      {last.map((event, index) => (
        <Step
          key={event.pos}
          event={event}
          entity={entity}
          before={index === 0 ? undefined : events.at(index - LAST_SHOWN - 1)}
        />
      ))}
    </ol>
  );
}

function Step(props: {
  event: EventDocument;
  entity: string;
  before: EventDocument | undefined;
}): ReactNode {
  const { event, entity, before } = props;
  const told = aboutPartition(event, entity);
  const [isOpen, setIsOpen] = useState(false);
  return (
    <li className={isTrouble(told) ? "ledger-step ledger-step-trouble" : "ledger-step"}>
      <div className="ledger-step-head">
        <Moment at={event.occurred_at} />
        {before !== undefined && <span className="soft">{gapText(before, event)}</span>}
        <EventName event={told} />
        <span className="soft">{clippedText(event.actor.principal, 60)}</span>
        <Link href={`/ledger/${event.pos}`}>event {event.pos}</Link>
      </div>
      <p className="ledger-sentence">{eventSentence(told)}</p>
      <EventLinks event={told} />
      <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
        <summary>
          Data<span className="visually-hidden"> of event {event.pos}</span>
        </summary>
        {isOpen && <Json value={event.data} label={`Data of event ${event.pos}`} />}
      </details>
    </li>
  );
}

function gapText(before: EventDocument, event: EventDocument): string {
  const ms = Date.parse(event.occurred_at) - Date.parse(before.occurred_at);
  return `+${durationText(ms)}`;
}
