import type { ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { Facts, Id } from "../../parts/facts.tsx";
import { Empty } from "../../parts/notice.tsx";
import { type Column, ListTable, More } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { useAddressQuery } from "../../parts/use-address.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { RoutingLink } from "./routing-link.tsx";
import { changeText, type RoutingVersion } from "./routing-texts.ts";

/** Changes that are listed of a version that is open. */
const LISTED_MAX = 200;

const COLUMNS: readonly Column<RoutingVersion>[] = [
  {
    heading: "Version",
    cell: ({ version }) => <RoutingLink name="version" value={String(version)} />,
  },
  { heading: "When", cell: ({ at }) => <Moment at={at} /> },
  { heading: "Cause", cell: (version) => <Cause version={version} /> },
  {
    heading: "Change",
    cell: (version) => <span className="routing-change">{changeText(version)}</span>,
  },
  {
    heading: "By",
    cell: ({ changed_by }) => <span className="routing-by">{visibleText(changed_by)}</span>,
    wideOnly: true,
  },
  { heading: "Reason", cell: ({ reason }) => reason ?? "", wideOnly: true },
];

function Cause({ version: { cause } }: { version: RoutingVersion }): ReactNode {
  if (cause.type === "manual") return "manual";
  return (
    <>
      {cause.direction === "forward" ? "cutover of " : "rollback of "}
      <Link href={`/splits/${encodeURIComponent(cause.split_id)}`}>
        split <Id id={cause.split_id} />
      </Link>
    </>
  );
}

/** The versions of the routing, newest first, and the one that the address names. */
export function RoutingHistory(): ReactNode {
  const search = useAddressQuery();
  const wanted = Number(search.get("version") ?? "0");
  const list = useList("listRoutingVersions", { query: { limit: 50 } });
  const opened = list.data?.items.find(({ version }) => version === wanted);
  return (
    <div className="stack">
      {opened !== undefined && <Opened version={opened} />}
      {wanted > 0 && opened === undefined && list.data !== undefined && (
        <>
          <p className="soft">Version {wanted} is not among those listed.</p>
          <More list={list} />
        </>
      )}
      <ListTable
        label="Versions of the routing"
        list={list}
        columns={COLUMNS}
        keyOf={({ version }) => version}
        empty={
          <Empty title="No versions yet.">
            <p>
              Set a default shard with Change routing, or with{" "}
              <code>pawl routing set --default &lt;shard&gt;</code>.
            </p>
          </Empty>
        }
      />
    </div>
  );
}

function Opened({ version }: { version: RoutingVersion }): ReactNode {
  return (
    <section className="card stack routing-opened" aria-label={`Version ${version.version}`}>
      <h3>Version {version.version}</h3>
      <Facts
        facts={[
          ["When", <Moment key="at" at={version.at} />],
          ["Cause", <Cause key="cause" version={version} />],
          ["By", version.changed_by],
          ["Reason", version.reason],
          ["Tenants", countText(version.routes.length)],
        ]}
      />
      <p>{changeText(version, LISTED_MAX)}</p>
    </section>
  );
}
