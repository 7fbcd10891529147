import { useMemo, useState } from "react";
import type {
  PartitionDefinition,
  SingleDefinition,
} from "../../../../../src/kernel/keyspace/definition.ts";
import { useAnswer } from "../../../api/use-answer.ts";
import { type Calendar, calendarOf } from "./calendar.ts";
import type { Range } from "./range-fields.tsx";

/** Values that are asked for at once; a dimension with more is searched by writing the value. */
const VALUES_MAX = 1_000;

/** One dimension of an asset's partitions, or all of them where there is one only. */
export type Dimension = { name: string; isOnly: boolean; definition: SingleDefinition };

/** What is known of the values of a dimension. */
export type DimensionFacts = {
  total: number | null;
  /** The first values, in order; none for what has a calendar. */
  values: readonly string[];
  calendar: Calendar | null;
  bounds: Range | null;
};

/** The name under which selectors know an only dimension. */
const ONE_DIMENSION = "partition";

/** The dimensions of a definition, sorted by name. */
export function dimensionsIn(definition: PartitionDefinition): Dimension[] {
  if (definition.type !== "multi") return [{ name: ONE_DIMENSION, isOnly: true, definition }];
  return Object.entries(definition.dimensions)
    .map(([name, single]) => ({ name, isOnly: false, definition: single }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** Looks up the values of a dimension, which may grow while somebody looks. */
export function useDimension(
  assetKey: string,
  { name, isOnly, definition }: Dimension,
): DimensionFacts {
  const isTime = "time_zone" in definition;
  const dimension = isOnly ? {} : { dimension: name };
  const params = { asset_key: assetKey };
  const head = useAnswer(
    "listPartitionValues",
    { params, query: { ...dimension, limit: isTime ? 1 : VALUES_MAX } },
    { keepPrevious: true },
  );
  const total = head.data?.total ?? null;
  const tail = useAnswer(
    "listPartitionValues",
    { params, query: { ...dimension, from: Math.max(0, (total ?? 0) - 1), limit: 1 } },
    { enabled: total !== null && total > 0 && definition.type === "integers", keepPrevious: true },
  );
  const [nowMs] = useState(() => Date.now());
  const calendar = useMemo(
    () => (isTime && total !== null ? calendarOf(definition, total, nowMs) : null),
    [isTime, total, definition, nowMs],
  );
  const values = isTime ? [] : (head.data?.items ?? []).map(({ value }) => value);
  const first = values[0];
  const last = definition.type === "integers" ? tail.data?.items[0]?.value : values.at(-1);
  return {
    total,
    values,
    calendar,
    bounds: first === undefined || last === undefined ? null : { start: first, end: last },
  };
}
