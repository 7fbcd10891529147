import { useCallback, useEffect, useRef, useState } from "react";
import type { Layout, MapView } from "../../parts/map-geometry.ts";

/** Ordinals from one to before another. */
export type Stretch = { from: number; through: number };

/** How long a map is left where it is before what is seen of it counts. */
const REST_MS = 250;

/** The partitions that are seen on a map which begins at an ordinal: whole rows, or whole columns. */
export function seenStretch(
  { fromRow, toRow, fromColumn, toColumn }: MapView,
  { cells, rows, columns, lead, isDown }: Layout,
  from: number,
): Stretch {
  const [first, end] = isDown
    ? [fromColumn * rows - lead, (toColumn + 1) * rows - lead]
    : [fromRow * columns - lead, (toRow + 1) * columns - lead];
  return { from: from + Math.max(0, first), through: from + Math.min(cells, end) };
}

/** What is seen of a map once it rests, and what hears of every move; null while too much is. */
export function useSeenStretch(most: number): [Stretch | null, (seen: Stretch) => void] {
  const [stretch, setStretch] = useState<Stretch | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onSeen = useCallback(
    (seen: Stretch): void => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        const next = seen.through - seen.from > most ? null : seen;
        setStretch((before) =>
          before?.from === next?.from && before?.through === next?.through ? before : next,
        );
      }, REST_MS);
    },
    [most],
  );
  return [stretch, onSeen];
}
