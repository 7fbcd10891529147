import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Empty } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { useAddressName, useAddressQuery } from "../../parts/use-address.ts";
import { clippedText } from "../../parts/visible-text.ts";
import { EventDetails } from "./event-details.tsx";
import { entityLink, historyHref, whyHref } from "./event-links.ts";
import { EventList } from "./event-list.tsx";
import "./ledger.css";
import { WhyChain } from "./why-chain.tsx";

const CRUMBS = [{ text: "Ledger", href: "/ledger" }];

/** What the ledger holds about one thing: its events, or how it came to where it stands. */
export function EntityPage(): ReactNode {
  const entity = useAddressName();
  if (/^\d{1,15}$/.test(entity)) return <EventDetails pos={Number(entity)} />;
  return <About entity={entity} />;
}

function About({ entity }: { entity: string }): ReactNode {
  const search = useAddressQuery();
  const isWhy = search.get("view") === "why";
  const title = clippedText(entity, 120);
  return (
    <Page
      title={`${isWhy ? "Why" : "History of"} ${clippedText(entity, 40)}`}
      heading={<span className="mono">{title}</span>}
      crumbs={CRUMBS}
      actions={<ToIt entity={entity} />}
    >
      <Tabs
        label="Views"
        tabs={[
          { text: "History", href: historyHref(entity), isCurrent: !isWhy },
          { text: "Why", href: whyHref(entity), isCurrent: isWhy },
        ]}
      />
      {isWhy ? (
        <WhyChain entity={entity} />
      ) : (
        <EventList
          label="Events"
          filter={{ types: "", entity, before: "" }}
          empty={
            <Empty title="No events of its own.">
              <p>
                <Link href={whyHref(entity)}>Why</Link> shows the events that led here.
              </p>
            </Empty>
          }
        />
      )}
    </Page>
  );
}

/** Leads to the page of what the events are about, once one of them says what that is. */
function ToIt({ entity }: { entity: string }): ReactNode {
  const why = useAnswer("explainEntity", { query: { entity } });
  const link = why.data === undefined ? null : entityLink(why.data.items, entity);
  if (link === null) return null;
  return (
    <Link href={link.href} className="button">
      Show the {link.kind}
    </Link>
  );
}
