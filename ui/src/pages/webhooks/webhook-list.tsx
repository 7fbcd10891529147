import type { ReactNode } from "react";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { call } from "../../api/call.ts";
import { useList } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { AssetLinks } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { WorkList } from "../../parts/work-list.tsx";

type Webhook = AnswerOf<"getWebhook">;

const STATES = [
  ["", "All"],
  ["ACTIVE", "active"],
  ["PAUSED", "paused"],
  ["DELETED", "deleted"],
] as const;

/** Deliveries come and go without an event. */
const EVERY_MS = 5_000;

/** All webhooks by name: where messages go, how they are written, and what could not be delivered. */
export function WebhookList(): ReactNode {
  const [{ status }, setFilter] = useFilters(["status"]);
  const query = queryOf({ status });
  const list = useList("listWebhooks", { query }, { keepPrevious: true, everyMs: EVERY_MS });
  return (
    <WorkList
      noun="webhook"
      href="/webhooks"
      filters={
        <Filters
          of="webhooks"
          filters={{ status }}
          setFilter={setFilter}
          fields={[{ name: "status", label: "State", options: STATES }]}
        />
      }
      isFiltered={Object.keys(query).length > 0}
      list={list}
      columns={COLUMNS}
      keyOf={({ webhook_id }) => webhook_id}
      none={<NoneYet />}
    />
  );
}

function NoneYet(): ReactNode {
  return (
    <Empty title="No webhooks yet.">
      <p>
        Define one with <code>webhook()</code> in the project's code and run{" "}
        <code>pawl deploy</code>, or create one: <code>pawl webhook create</code>.
      </p>
    </Empty>
  );
}

const COLUMNS: readonly Column<Webhook>[] = [
  {
    heading: "Webhook",
    cell: ({ name, url = "", email }) => (
      <>
        {name}
        {/* The path of an address is often a secret. */}
        <div className="soft">
          {visibleText(email?.to.join(", ") ?? URL.parse(url)?.host ?? "")}
        </div>
      </>
    ),
  },
  { heading: "State", cell: ({ state }) => <Status state={state} /> },
  { heading: "Messages", cell: (webhook) => <Messages webhook={webhook} /> },
  { heading: "Notifications", cell: ({ notifications }) => notifications.join(", ") },
  {
    heading: "Assets",
    cell: ({ assets }) => (assets.length === 0 ? "All" : <AssetLinks assets={assets} />),
    wideOnly: true,
  },
  {
    heading: "Pending",
    cell: ({ deliveries_pending }) => countText(deliveries_pending),
    align: "end",
  },
  {
    heading: "Failed",
    cell: ({ deliveries_failed }) => countText(deliveries_failed),
    align: "end",
  },
  { heading: "Test", cell: (webhook) => <SendTest webhook={webhook} /> },
];

/** How the messages of a webhook are written. */
function Messages({ webhook }: { webhook: Webhook }): ReactNode {
  const { format = "pawl", email, template, digest } = webhook;
  return (
    <>
      {email === undefined ? format : "e-mail"}
      {email?.subject !== undefined && (
        <div className="soft">Subject: {visibleText(email.subject)}</div>
      )}
      {digest !== undefined && <div className="soft">one message for a backfill</div>}
      {template !== undefined && (
        <details>
          <summary>Template</summary>
          <code>{visibleText(template)}</code>
        </details>
      )}
    </>
  );
}

function SendTest({ webhook }: { webhook: Webhook }): ReactNode {
  const { webhook_id, name, state } = webhook;
  return (
    <Action
      label="Send test"
      unavailable={state === "DELETED" ? "The webhook is deleted." : null}
      consequence={
        <p>
          Sends a test message to <b>{visibleText(name)}</b> now and shows what the receiver
          answered.
        </p>
      }
      run={() => call("testWebhook", { params: { webhook_id }, body: {} })}
    />
  );
}
