import type { ReactNode } from "react";
import { Link } from "wouter";
import { Table } from "../../parts/table.tsx";
import { Moment } from "../../parts/time.tsx";
import { type PhaseTimes, type Split, tenantsText } from "./split-texts.ts";

type Version = { version: number; what: string; serves: string; at: string | null };

/** Which version of the routing each turn of the split made, and who serves since. */
export function SplitRouting({ split, times }: { split: Split; times: PhaseTimes }): ReactNode {
  const { source, target } = split;
  const { routing_version_cutover: forth, routing_version_rollback: back } = split;
  const versions: Version[] = [
    {
      version: split.routing_version_at_start,
      what: "when planned",
      serves: source,
      at: split.planned_at,
    },
    ...(forth === null
      ? []
      : [{ version: forth, what: "by the cutover", serves: target, at: split.cutover_at }]),
    ...(back === null
      ? []
      : [
          {
            version: back,
            what: "by the rollback",
            serves: source,
            at: times.get("handed_back") ?? null,
          },
        ]),
  ];
  return (
    <div className="stack">
      <Table
        label="Routing"
        columns={[
          {
            heading: "Version",
            cell: ({ version, what }) => (
              <>
                <Link href={`/routing?version=${version}`}>{version}</Link> {what}
              </>
            ),
          },
          { heading: "Serves", cell: ({ serves }) => <code>{serves}</code> },
          { heading: "When", cell: ({ at }) => <Moment at={at} /> },
        ]}
        rows={versions}
        keyOf={({ what }) => what}
      />
      <p className="soft">
        <code>{versions.at(-1)?.serves}</code> serves {tenantsText(split.tenants)} now.
      </p>
    </div>
  );
}
