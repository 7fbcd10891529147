import { useQueries } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { MapDimension, PartitionValues } from "../../../../src/work/asset/api.ts";
import { call } from "../../api/call.ts";
import { countText } from "../../parts/time-text.ts";
import { newBackfillHref } from "./asset-links.ts";
import type { Chosen, Ordinals } from "./chosen-partitions.ts";

/** What was chosen on the map, and what can be done with it. */
export function ChosenBar(props: {
  assetKey: string;
  chosen: Chosen;
  dimensions: readonly MapDimension[];
  onOpen: (() => void) | null;
  onClear: () => void;
}): ReactNode {
  const { assetKey, chosen, dimensions, onOpen, onClear } = props;
  const ends = useEnds(assetKey, chosen);
  const href = ends === null ? null : hrefOf(assetKey, ends, dimensions);
  return (
    <div className="assets-chosen card" role="status">
      {chosen.type === "unclear" ? (
        <span>{chosen.why}</span>
      ) : (
        <>
          <strong>
            {countText(chosen.count)} {chosen.count === 1 ? "partition" : "partitions"} chosen
          </strong>
          <span className="soft">{ends === null ? "…" : textOf(ends)}</span>
        </>
      )}
      <span className="assets-chosen-buttons">
        {onOpen !== null && (
          <button type="button" className="button" onClick={onOpen}>
            Open
          </button>
        )}
        {href !== null && (
          <Link href={href} className="button button-primary">
            Backfill these
          </Link>
        )}
        <button type="button" className="button" onClick={onClear}>
          Clear
        </button>
      </span>
    </div>
  );
}

/** The values at both ends of a stretch, of whole keys where the dimension has no name. */
type Ends = Ordinals & { start: string; end: string };

function useEnds(assetKey: string, chosen: Chosen): Ends[] | null {
  const ranges: readonly Ordinals[] =
    chosen.type === "filter"
      ? chosen.ranges
      : chosen.type === "range"
        ? [{ dimension: "", from: chosen.from, to: chosen.to }]
        : [];
  const answers = useQueries({
    queries: ranges.flatMap(({ dimension, from, to }) =>
      [from, to].map((ordinal) => {
        const query = { from: ordinal, limit: 1, ...(dimension === "" ? {} : { dimension }) };
        const input = { params: { asset_key: assetKey }, query };
        return {
          queryKey: ["listPartitionValues", input],
          queryFn: ({ signal }: { signal: AbortSignal }): Promise<PartitionValues> =>
            call("listPartitionValues", { ...input, signal }),
        };
      }),
    ),
  });
  const values = answers.map(({ data }) => data?.items[0]?.value);
  if (ranges.length === 0 || values.some((value) => value === undefined)) return null;
  return ranges.map((range, at) => {
    return { ...range, start: values[at * 2] ?? "", end: values[at * 2 + 1] ?? "" };
  });
}

function textOf(ends: readonly Ends[]): string {
  return ends
    .map(({ dimension, start, end }) => {
      const stretch = start === end ? start : `${start} to ${end}`;
      return dimension === "" ? stretch : `${dimension} ${stretch}`;
    })
    .join(", ");
}

function hrefOf(
  assetKey: string,
  ends: readonly Ends[],
  dimensions: readonly MapDimension[],
): string {
  const [only] = ends;
  if (only?.dimension === "") {
    const { start, end } = only;
    return newBackfillHref(
      assetKey,
      start === end ? { keys: JSON.stringify([start]) } : { start, end },
    );
  }
  const filter: Record<string, unknown> = {};
  for (const { dimension, from, to, start, end } of ends) {
    const count = dimensions.find(({ name }) => name === dimension)?.count;
    // A whole dimension is left out, so that what is added to it until then belongs to it.
    if (from === 0 && to + 1 === count && count > 1) continue;
    // A list rather than a bare text, which could be a pattern.
    filter[dimension] = from === to ? [start] : { start, end };
  }
  if (Object.keys(filter).length === 0) return newBackfillHref(assetKey, { all: "1" });
  return newBackfillHref(assetKey, { filter: JSON.stringify(filter) });
}
