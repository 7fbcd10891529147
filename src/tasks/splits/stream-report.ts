import type { SplitReport } from "../../core/step-protocol.ts";
import { isVerified, type Stream } from "./stream.ts";
import { isCompared } from "./verify-copy.ts";

/** How far the copy of a stream is. */
export function copyReport({ state, plan, events, lastEvent }: Stream): SplitReport {
  const cursor = state?.cursor ?? { table: 0, key: null };
  const rows = state?.rows ?? [];
  return {
    rows_copied: rows.reduce((sum, count) => sum + count, 0),
    tables: plan.tables.map(({ table }, at) => ({
      table,
      rows: rows[at] ?? 0,
      cursor: at === cursor.table ? cursor.key : null,
      done: at < cursor.table,
    })),
    events_applied: events,
    ...(state?.position === null || state?.position === undefined
      ? {}
      : { position: state.position }),
    ...(lastEvent === null ? {} : { last_event_id: lastEvent.id, last_event_at: lastEvent.at }),
  };
}

/** How far a stream is that follows its source. The lag is measured by the worker's clock alone. */
export function tailReport(stream: Stream, lagEvents: number | null): SplitReport {
  const { caughtUpAt, state } = stream;
  const lagMs = lagOf(stream);
  return {
    ...copyReport(stream),
    ...(lagEvents === null ? {} : { lag_events: lagEvents }),
    ...(caughtUpAt === null || lagMs === null ? {} : { lag_ms: lagMs }),
    verification: {
      ok: true,
      ranges: state?.verified?.ranges ?? 0,
      rows: state?.verified?.rows ?? 0,
      finished: isCompared(stream),
      note: isCompared(stream) && !isVerified(stream) ? "what has changed is being compared" : null,
    },
  };
}

/** How long ago the source was as the target is now; null when that is not known yet. */
export function lagOf({ caughtUpAt, now }: Stream): number | null {
  return caughtUpAt === null ? null : Math.max(0, Math.round(now() - caughtUpAt));
}
