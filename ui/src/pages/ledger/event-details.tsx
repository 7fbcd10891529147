import type { ReactNode } from "react";
import { Link } from "wouter";
import type { EventDocument } from "../../../../src/work/server-api.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts, Json } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { Moment, Time } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import { eventSentence } from "./event-sentence.ts";
import { EventLinks, EventName } from "./event-table.tsx";

/** One event, with everything that was recorded. */
export function EventDetails({ pos }: { pos: number }): ReactNode {
  const query = { after: Math.max(0, pos - 1), before: pos + 1, limit: 1 };
  const answer = useAnswer("listEvents", { query });
  const event = answer.data?.items[0];
  return (
    <Page
      title={`Event ${pos}`}
      heading={
        event === undefined ? (
          `Event ${pos}`
        ) : (
          <>
            <EventName event={event} /> at {pos}
          </>
        )
      }
      crumbs={[{ text: "Ledger", href: "/ledger" }]}
      actions={
        <>
          {pos > 1 && (
            <Link href={`/ledger/${pos - 1}`} className="button">
              Previous
            </Link>
          )}
          <Link href={`/ledger/${pos + 1}`} className="button">
            Next
          </Link>
        </>
      }
    >
      <Loaded answer={answer}>
        {({ items: [shown], pos: head }) =>
          shown === undefined ? (
            <Empty title={`There is no event at position ${pos}.`}>
              <p>
                The newest is <Link href={`/ledger/${head}`}>{head}</Link>.
              </p>
            </Empty>
          ) : (
            <Shown event={shown} />
          )
        }
      </Loaded>
    </Page>
  );
}

function Shown({ event }: { event: EventDocument }): ReactNode {
  const { actor } = event;
  return (
    <>
      <div className="card stack">
        <p className="ledger-sentence">{eventSentence(event)}</p>
        <EventLinks event={event} />
        <Facts
          facts={[
            [
              "When",
              <span key="when">
                <Moment at={event.occurred_at} /> (<Time at={event.occurred_at} />)
              </span>,
            ],
            ["Who", visibleText(actor.principal)],
            ["Token", actor.token_id],
            ["Subject", <Subject key="subject" subject={event.subject_pos} />],
            ["Event version", String(event.v)],
            ["Correlation", event.correlation_id],
          ]}
        />
      </div>
      <Section title="Data">
        <Json value={event.data} label="Data of the event" />
      </Section>
      <Section title="Hash chain">
        <dl className="card ledger-hashes">
          <Hash name="Event id" value={event.event_id} />
          <Hash name="Idempotency key" value={event.idempotency_key} />
          <Hash name="Previous hash" value={event.prev_hash} />
          <Hash name="Hash" value={event.hash} />
        </dl>
      </Section>
    </>
  );
}

function Subject({ subject }: { subject: number }): ReactNode {
  if (subject === 0) return "the workspace";
  if (subject < 0) return "the system";
  return <Link href={`/ledger/${subject}`}>what event {subject} made</Link>;
}

function Hash({ name, value }: { name: string; value: string }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="mono">{visibleText(value)}</dd>
    </div>
  );
}
