import type { ReactNode } from "react";
import { Link } from "wouter";
import type { PartitionDocument } from "../../../../src/work/asset/api.ts";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { ChecksBadge, checkSentence } from "../../parts/checks.tsx";
import { Choice } from "../../parts/field.tsx";
import { Empty } from "../../parts/notice.tsx";
import { lookOf } from "../../parts/status-look.ts";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { assetHref, logHref } from "./asset-links.ts";
import { PARTITION_STATUSES, STALE_REASONS, STALE_WORDS } from "./partition-texts.ts";

const COLUMNS: readonly Column<PartitionDocument>[] = [
  {
    heading: "Partition",
    cell: ({ asset_key, partition_key }) => (
      <Link href={assetHref(asset_key, partition_key)}>{partition_key}</Link>
    ),
  },
  { heading: "Status", cell: ({ status }) => <Status state={status} /> },
  {
    heading: "Stale because",
    cell: ({ stale_reason }) =>
      stale_reason === null || stale_reason === "NEVER_MATERIALIZED"
        ? "–"
        : STALE_WORDS[stale_reason],
  },
  { heading: "Stale since", wideOnly: true, cell: ({ stale_since }) => <Time at={stale_since} /> },
  {
    heading: "Materialized",
    wideOnly: true,
    cell: ({ last_materialization_at }) => <Time at={last_materialization_at} />,
  },
  {
    heading: "Last attempt",
    wideOnly: true,
    cell: ({ last_attempt_at, last_attempt_outcome }) =>
      last_attempt_outcome === null ? (
        "–"
      ) : (
        <>
          <Status state={last_attempt_outcome} /> <Time at={last_attempt_at} />
        </>
      ),
  },
  { heading: "Checks", cell: (partition) => <ChecksOf partition={partition} /> },
  { heading: "Error", cell: (partition) => <ErrorOf partition={partition} /> },
];

/** What the checks came to, and what the first of those says that did not pass. */
function ChecksOf({ partition }: { partition: PartitionDocument }): ReactNode {
  const { check_status, failed_checks } = partition;
  const [first] = failed_checks;
  if (check_status === null) return "–";
  return (
    <span title={failed_checks.map(checkSentence).join("\n")}>
      <ChecksBadge status={check_status} /> {first?.name}
    </span>
  );
}

/** Why the last attempt failed, and where more is told. */
function ErrorOf({ partition }: { partition: PartitionDocument }): ReactNode {
  const { last_attempt_error: error } = partition;
  if (error === null) return "–";
  const log = logHref(partition);
  return (
    <span className="assets-error">
      <span title={visibleText(error.message)}>{visibleText(error.message)}</span>
      {log !== null && <Link href={log}>Log</Link>}
    </span>
  );
}

/** The partitions of an asset one by one, with those of a status or a reason only. */
export function PartitionList({ assetKey }: { assetKey: string }): ReactNode {
  const [{ status, reason, checks }, setFilter] = useFilters(["status", "reason", "checks"]);
  return (
    <>
      <div className="filters">
        <Choice
          label="Status"
          value={status}
          options={[
            ["", "All"],
            ...PARTITION_STATUSES.map((each) => [each, lookOf(each).word] as const),
          ]}
          onChange={(value) => {
            setFilter("reason", "");
            setFilter("status", value);
          }}
        />
        <Choice
          label="Stale because"
          value={reason}
          options={[
            ["", "All"],
            ...STALE_REASONS.map((each) => [each, STALE_WORDS[each]] as const),
          ]}
          onChange={(value) => {
            setFilter("status", "");
            setFilter("checks", "");
            setFilter("reason", value);
          }}
        />
        <Choice
          label="Checks"
          value={checks}
          options={[
            ["", "All"],
            ["FAILED", "failed"],
            ["WARNED", "warning"],
            ["PASSED", "passed"],
          ]}
          onChange={(value) => {
            setFilter("reason", "");
            setFilter("checks", value);
          }}
        />
      </div>
      {reason === "" ? (
        <ByStatus assetKey={assetKey} status={status} checks={checks} />
      ) : (
        <ByReason assetKey={assetKey} reason={reason} />
      )}
    </>
  );
}

function ByStatus(props: { assetKey: string; status: string; checks: string }): ReactNode {
  const { assetKey, status, checks } = props;
  const query = {
    limit: 50,
    ...(status === "" ? {} : { status }),
    ...(checks === "" ? {} : { checks }),
  };
  const list = useList("listAssetPartitions", { params: { asset_key: assetKey }, query });
  return <Shown list={list} />;
}

function ByReason({ assetKey, reason }: { assetKey: string; reason: string }): ReactNode {
  const query = { limit: 50, asset: assetKey, reason };
  return <Shown list={useList("listStalePartitions", { query })} />;
}

function Shown({ list }: { list: ListAnswer<PartitionDocument> }): ReactNode {
  return (
    <>
      <ListTable
        label="Partitions"
        list={list}
        columns={COLUMNS}
        keyOf={({ partition_key }) => partition_key}
        empty={<Empty title="No partition matches." />}
      />
      {list.hasNextPage && list.data?.items.length === 0 && (
        <p className="soft">None among the first that were searched; there are more to search.</p>
      )}
    </>
  );
}
