import type { ReactNode } from "react";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { useAnswer, useList } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page, Section, SectionColumns } from "../../parts/page.tsx";
import { ListTable, Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { ChangeRouting } from "./change-routing.tsx";
import { RoutingHistory } from "./routing-history.tsx";
import { RoutingLink } from "./routing-link.tsx";
import { TenantSearch } from "./tenant-search.tsx";
import "./routing.css";

type Routing = AnswerOf<"getRouting">;

/** Where tenants are: now, one by one, and how it came about. */
export function RoutingPage(): ReactNode {
  const answer = useAnswer("getRouting", {});
  const routing = answer.data;
  return (
    <Page
      title="Routing"
      actions={routing !== undefined && <ChangeRouting version={routing.version} />}
    >
      <Loaded answer={answer}>
        {(shown) => (
          <>
            <SectionColumns>
              <Section title="Now">
                <Now routing={shown} />
              </Section>
              <Section title="Find a tenant">
                <TenantSearch />
              </Section>
            </SectionColumns>
            <Section title="History">
              <RoutingHistory />
            </Section>
            {shown.tenants > 0 && (
              <Section title="Routes of single tenants">
                <Routes routing={shown} />
              </Section>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Now({ routing }: { routing: Routing }): ReactNode {
  const { version, default_shard: everybody, default_epoch: epoch, shards } = routing;
  if (version === 0) {
    return (
      <Empty title="No routing set.">
        <p>
          Set a default shard with Change routing, or with{" "}
          <code>pawl routing set --default &lt;shard&gt;</code>. Splits and routers need it.
        </p>
      </Empty>
    );
  }
  return (
    <div className="card stack">
      <Facts
        facts={[
          ["Version", <strong key="version">{version}</strong>],
          ["Changed", <Time key="changed" at={routing.updated_at} />],
          [
            "Default",
            everybody === null ? (
              "nowhere"
            ) : (
              <span key="default">
                on <code>{everybody}</code> since version{" "}
                <RoutingLink name="version" value={String(epoch)} />
              </span>
            ),
          ],
          ["Tenants with a route", countText(routing.tenants)],
        ]}
      />
      {shards.length > 0 && (
        <Table
          label="Tenants by shard"
          columns={[
            { heading: "Shard", cell: ({ shard }) => <code>{shard}</code> },
            {
              heading: "Tenants with a route",
              cell: ({ tenants }) => countText(tenants),
              align: "end",
            },
          ]}
          rows={shards}
          keyOf={({ shard }) => shard}
        />
      )}
    </div>
  );
}

function Routes({ routing }: { routing: Routing }): ReactNode {
  const [{ shard }, setFilter] = useFilters(["shard"]);
  const list = useList("listRoutes", { query: queryOf({ shard }) }, { keepPrevious: true });
  return (
    <>
      <Filters
        of="routes"
        filters={{ shard }}
        setFilter={setFilter}
        fields={[
          {
            name: "shard",
            label: "Shard",
            options: [
              ["", "All"],
              ...routing.shards.map((each) => [each.shard, each.shard] as const),
            ],
          },
        ]}
      />
      <ListTable
        label="Routes"
        list={list}
        columns={[
          {
            heading: "Tenant",
            cell: ({ tenant }) => <RoutingLink name="tenant" value={tenant} />,
          },
          { heading: "Shard", cell: (route) => <code>{route.shard}</code> },
          {
            heading: "Since version",
            cell: ({ epoch }) => <RoutingLink name="version" value={String(epoch)} />,
            align: "end",
          },
          { heading: "Since", cell: ({ updated_at }) => <Time at={updated_at} /> },
        ]}
        keyOf={({ tenant }) => tenant}
        empty={<Empty title="No tenant has a route to that shard." />}
      />
    </>
  );
}
