import { type ReactNode, useMemo, useRef } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { Plot } from "../../parts/plot.tsx";
import { Status } from "../../parts/status.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { joinPoints, type LagPoint } from "./lag-points.ts";
import { isEnded, type Split } from "./split-texts.ts";

/** How often the kept samples are asked for; between them the split's own word is drawn. */
const EVERY_MS = 10_000;

/** At least so much time is drawn, as an axis of seconds says little. */
const SHOWN_SECONDS_MIN = 300;

/** Points that are drawn of what the page has heard itself: one a second, a quarter of an hour. */
const HEARD_MAX = 900;

/** How far the copy is behind what is written: now, and as a line. */
export function SplitLag({ split }: { split: Split }): ReactNode {
  const { id, tail, lag_limit_ms } = split;
  const isOver = isEnded(split);
  const name = `split_lag_ms:${id}`;
  const samples = useAnswer(
    "listSamples",
    { query: { series: name } },
    { everyMs: isOver ? undefined : EVERY_MS, keepPrevious: true },
  );
  const kept = samples.data?.items.find(({ series }) => series === name)?.points;
  const heard = useHeard(split);
  const series = useMemo(
    () => [{ name: "Lag", points: joinPoints(kept ?? [], heard), kind: "line" as const }],
    [kept, heard],
  );
  const points = series[0]?.points ?? [];
  const isDrawn = points.length > 0;
  const to = points.at(-1)?.[0] ?? 0;
  const from = Math.min(points[0]?.[0] ?? to, to - SHOWN_SECONDS_MIN);
  return (
    <div className="card stack">
      <Facts
        facts={[
          ["State", <Status key="state" state={tail.status} />],
          ["Lag", isOver ? null : lagText(tail.lag_ms)],
          [
            "Pending changes",
            isOver || tail.lag_events === null ? null : countText(tail.lag_events),
          ],
          ["Lag limit", durationText(lag_limit_ms)],
          ["Last change", tail.last_event_ts === null ? null : <Moment at={tail.last_event_ts} />],
        ]}
      />
      {isDrawn && <Plot label="Lag" unit="ms" series={series} height={110} from={from} to={to} />}
      {!isDrawn && (
        <p className="soft">
          {isOver
            ? "No lag was measured in the last day."
            : "The lag appears here once changes are replayed from the source."}
        </p>
      )}
    </div>
  );
}

function lagText(lagMs: number | null): string {
  return lagMs === null ? "not known yet" : durationText(lagMs);
}

/** What the split said while this page was open. */
function useHeard({ tail, step }: Split): readonly LagPoint[] {
  const heard = useRef<{ at: string | null; points: readonly LagPoint[] }>({
    at: null,
    points: [],
  });
  const reportedAt = step?.reported_at ?? null;
  if (reportedAt !== null && tail.lag_ms !== null && heard.current.at !== reportedAt) {
    const point: LagPoint = [Math.floor(Date.parse(reportedAt) / 1_000), tail.lag_ms];
    const points = [...heard.current.points, point].slice(-HEARD_MAX);
    heard.current = { at: reportedAt, points };
  }
  return heard.current.points;
}
