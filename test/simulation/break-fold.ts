import { vi } from "vitest";
import type { EventType } from "../../src/work/events.ts";
import { type Folding, FOLDS, type Recorded } from "../../src/work/fold.ts";
import type { Rows } from "../../src/work/rows.ts";

/** Has the fold of an event type run between two changes of a test's own. */
export function breakFold<Type extends EventType>(
  type: Type,
  apply: (original: () => void, rows: Rows, event: Recorded<Type>) => void,
): void {
  const folding = FOLDS[type] as unknown as Folding<Type>;
  const original = folding.apply.bind(folding);
  vi.spyOn(folding, "apply").mockImplementation((rows: Rows, event: Recorded<Type>) =>
    apply(() => original(rows, event), rows, event),
  );
}
