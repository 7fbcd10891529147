import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Filters } from "../../parts/filters.tsx";

/** What runs can be told apart by, as the address names it. */
export const RUN_FILTERS = ["status", "trigger", "asset", "backfill_id", "since", "until"] as const;

type Name = (typeof RUN_FILTERS)[number];

const STATES = [
  ["", "All"],
  ["PENDING,RUNNING", "unfinished"],
  ["PENDING", "pending"],
  ["RUNNING", "running"],
  ["SUCCEEDED", "succeeded"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
] as const;

const TRIGGERS = [
  ["", "All"],
  ["manual", "a user"],
  ["backfill", "a backfill"],
  ["schedule", "a schedule"],
  ["sensor", "a sensor"],
  ["sync", "a sync"],
  ["move", "a move"],
  ["split", "a split"],
] as const;

/** The filters of the list of runs. */
export function RunFilters(props: {
  filters: Readonly<Record<Name, string>>;
  setFilter: (name: Name, value: string) => void;
}): ReactNode {
  const { filters, setFilter } = props;
  const assets = useAnswer("listAssets", { query: { limit: 200 } });
  return (
    <Filters
      of="runs"
      filters={filters}
      setFilter={setFilter}
      fields={[
        { name: "status", label: "State", options: STATES },
        { name: "trigger", label: "Triggered by", options: TRIGGERS },
        {
          name: "asset",
          label: "Asset",
          type: "search",
          choices: (assets.data?.items ?? []).map(({ asset_key }) => asset_key),
        },
        { name: "backfill_id", label: "Backfill", type: "search" },
        { name: "since", label: "Since (UTC)", type: "day" },
        { name: "until", label: "Before (UTC)", type: "day" },
      ]}
    />
  );
}
