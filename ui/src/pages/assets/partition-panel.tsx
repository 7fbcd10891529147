import type { ReactNode } from "react";
import { Link } from "wouter";
import type { PartitionDocument } from "../../../../src/work/asset/api.ts";
import { call } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { CheckList, ChecksBadge } from "../../parts/checks.tsx";
import { Facts, Id } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Metadata } from "../../parts/metadata.tsx";
import { Empty, Notice } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { Time } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import { logHref, newBackfillHref, partitionStoryHref } from "./asset-links.ts";
import { PartitionHistory } from "./partition-history.tsx";
import { STALE_WORDS } from "./partition-texts.ts";

/** One partition: how it stands, what made it, what was tried last, and what can be done. */
export function PartitionPanel(props: {
  assetKey: string;
  /** Its place; 0 for an asset without partitions. */
  ordinal: number;
  onClose: (() => void) | null;
}): ReactNode {
  const { assetKey, ordinal, onClose } = props;
  const page = useAnswer("listAssetPartitions", {
    params: { asset_key: assetKey },
    query: { from: ordinal, limit: 1 },
  });
  return (
    <section className="card assets-panel" aria-label="Partition">
      <Loaded answer={page}>
        {({ items: [partition] }) =>
          partition === undefined ? (
            <Empty title="This partition does not exist." />
          ) : (
            <>
              <div className="assets-panel-heading">
                <h2>{partition.partition_key === "" ? "Status" : partition.partition_key}</h2>
                <Status state={partition.status} />
                <ChecksBadge status={partition.check_status} />
                {onClose !== null && (
                  <button type="button" className="button" onClick={onClose}>
                    Close
                  </button>
                )}
              </div>
              <LastError partition={partition} />
              {partition.failed_checks.length > 0 && (
                <Notice tone={partition.check_status === "FAILED" ? "bad" : "warn"}>
                  <CheckList checks={partition.failed_checks} />
                </Notice>
              )}
              <PartitionFacts partition={partition} />
              {partition.metadata !== null && (
                <PartitionHistory assetKey={assetKey} partitionKey={partition.partition_key} />
              )}
              <PartitionActions partition={partition} />
            </>
          )
        }
      </Loaded>
    </section>
  );
}

/** Why the last attempt failed, unless another is under way. */
function LastError({ partition }: { partition: PartitionDocument }): ReactNode {
  const { last_attempt_error: error, status } = partition;
  const log = logHref(partition);
  if (error === null || log === null || status === "IN_PROGRESS") return null;
  return (
    <Notice tone="bad">
      <p className="assets-error-text">{visibleText(error.message)}</p>
      <p>
        <Link href={log}>Log of the attempt</Link>
      </p>
    </Notice>
  );
}

function PartitionFacts({ partition }: { partition: PartitionDocument }): ReactNode {
  const values = Object.entries(partition.partition_values ?? {});
  const made = partition.last_materialization_at;
  const tried = partition.last_attempt_at;
  return (
    <>
      <Facts
        facts={[
          ...values.map(([name, value]): readonly [string, ReactNode] => [name, value]),
          [
            "Stale",
            partition.stale_reason === null ? null : (
              <>
                {STALE_WORDS[partition.stale_reason]}
                {partition.stale_since !== null && (
                  <>
                    , since <Time at={partition.stale_since} />
                  </>
                )}
              </>
            ),
          ],
          [
            "Last materialized",
            made === null ? (
              "never"
            ) : (
              <>
                <Time at={made} /> <MadeBy partition={partition} />
              </>
            ),
          ],
          ["Code version", partition.last_materialization_code_version],
          [
            "Last attempt",
            tried === null ? (
              "none"
            ) : (
              <>
                <Status state={partition.last_attempt_outcome ?? ""} /> <Time at={tried} />
                {partition.last_attempt_run_id !== null && (
                  <>
                    {" "}
                    in <RunLink id={partition.last_attempt_run_id} />
                  </>
                )}
              </>
            ),
          ],
        ]}
      />
      {partition.metadata !== null && (
        <Metadata value={partition.metadata} label="Metadata of the last materialization" />
      )}
    </>
  );
}

/** The run that made a partition, or who said that it was made elsewhere. */
function MadeBy({ partition }: { partition: PartitionDocument }): ReactNode {
  const { last_materialization_reported_by: reporter } = partition;
  if (reporter !== null) return `elsewhere, reported by ${reporter}`;
  return (
    <>
      by <RunLink id={partition.last_materialization_run_id} />
    </>
  );
}

function RunLink({ id }: { id: string | null }): ReactNode {
  if (id === null) return "an unknown run";
  return (
    <Link href={`/runs/${encodeURIComponent(id)}`}>
      <Id id={id} />
    </Link>
  );
}

function PartitionActions({ partition }: { partition: PartitionDocument }): ReactNode {
  const { asset_key, partition_key } = partition;
  const keys = partition_key === "" ? {} : { partition_keys: [partition_key] };
  // Of what was never tried the ledger has nothing to tell.
  const hasStory = partition.status !== "NEVER_MATERIALIZED" || partition.last_attempt_at !== null;
  return (
    <div className="row">
      <Action
        label="Materialize"
        consequence={
          <p>
            One run of <strong>{asset_key}</strong>
            {partition_key === "" ? "" : ` for ${partition_key}`} is requested and starts as soon as
            a worker is free. The result replaces the current one; downstream partitions become
            stale.
          </p>
        }
        run={() => call("requestRun", { body: { assets: [asset_key], ...keys } })}
        unavailable={partition.status === "IN_PROGRESS" ? "A task is running for it now." : null}
      />
      {partition_key !== "" && (
        <Link
          className="button"
          href={newBackfillHref(asset_key, { keys: JSON.stringify([partition_key]) })}
        >
          Backfill
        </Link>
      )}
      {hasStory && (
        <>
          <Link className="button" href={partitionStoryHref(asset_key, partition_key, "why")}>
            Why
          </Link>
          <Link className="button" href={partitionStoryHref(asset_key, partition_key, "history")}>
            History
          </Link>
        </>
      )}
    </div>
  );
}
