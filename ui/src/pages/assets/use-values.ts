import { useQueries } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";
import type { PartitionValues } from "../../../../src/work/asset/api.ts";
import { call } from "../../api/call.ts";

const PAGE = 200;

/** Pages that are kept; who scrolls through a million labels does not look back at all of them. */
const PAGES_KEPT = 40;

/**
 * Values of a dimension, or whole keys, that are loaded when somebody asks for one of them. Until it
 * is there the answer is null, and the page is drawn again when it is.
 */
export function useValues(
  assetKey: string,
  dimension: string | undefined,
): (ordinal: number) => string | null {
  const [pages, setPages] = useState<readonly number[]>([]);
  const asked = useRef<ReadonlySet<number>>(new Set());
  const answers = useQueries({
    queries: pages.map((page) => {
      const query = { from: page * PAGE, limit: PAGE, dimension };
      const input = { params: { asset_key: assetKey }, query };
      return {
        queryKey: ["listPartitionValues", input],
        queryFn: ({ signal }: { signal: AbortSignal }): Promise<PartitionValues> =>
          call("listPartitionValues", { ...input, signal }),
      };
    }),
  });
  const known = useRef(new Map<number, readonly string[]>());
  known.current = new Map(
    pages.map((page, at) => [page, answers[at]?.data?.items.map(({ value }) => value) ?? []]),
  );
  // Labels are asked for while something is drawn, when nothing may be set.
  const ask = useCallback((page: number): void => {
    if (asked.current.has(page)) return;
    asked.current = new Set([...asked.current, page].slice(-PAGES_KEPT));
    queueMicrotask(() => setPages([...asked.current]));
  }, []);
  return useCallback(
    (ordinal) => {
      const page = Math.floor(ordinal / PAGE);
      ask(page);
      return known.current.get(page)?.[ordinal - page * PAGE] ?? null;
    },
    // The answers are what makes the labels new.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
    [ask, answers.map(({ dataUpdatedAt }) => dataUpdatedAt).join()],
  );
}
