import { type ReactNode, useMemo } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Plot } from "../../parts/plot.tsx";
import { Section } from "../../parts/page.tsx";
import { useNow } from "../../parts/use-now.ts";
import type { Sync } from "./sync-texts.ts";

/** Samples are taken every ten seconds. */
const SAMPLE_MS = 10_000;

/** At least the last hour is shown. */
const SHOWN_SECONDS_MIN = 3_600;

/** How far a sync was behind its head over the last hours. */
export function SyncLag({ sync }: { sync: Sync }): ReactNode {
  const series = `sync_lag_blocks:${sync.sync_id}`;
  const answer = useAnswer("listSamples", { query: { series } }, { everyMs: SAMPLE_MS });
  return (
    <Section title="Lag">
      <Loaded answer={answer}>
        {({ items }) => {
          const points = items[0]?.points ?? [];
          if (points.length > 0) return <Line points={points} />;
          return (
            <Empty title="No samples yet.">
              <p>
                {sync.to_limit === null
                  ? "Lag is sampled every ten seconds once the sync follows its head."
                  : "The sync ends at a fixed block, so it has no lag."}
              </p>
            </Empty>
          );
        }}
      </Loaded>
    </Section>
  );
}

type Point = readonly [seconds: number, blocks: number];

function Line({ points }: { points: readonly Point[] }): ReactNode {
  const now = Math.floor(useNow() / SAMPLE_MS) * (SAMPLE_MS / 1_000);
  const to = Math.max(now, points.at(-1)?.[0] ?? now);
  const series = useMemo(() => [{ name: "lag", points: heldTo(points, to) }], [points, to]);
  const from = Math.min(points[0]?.[0] ?? to, to - SHOWN_SECONDS_MIN);
  return (
    <div className="card">
      <Plot label="Lag" unit="blocks" series={series} height={160} from={from} to={to} />
    </div>
  );
}

/** The points and the last value as it still is now: only changes are written down. */
function heldTo(points: readonly Point[], to: number): [number, number][] {
  const all = points.map(([seconds, blocks]): [number, number] => [seconds, blocks]);
  const last = all.at(-1);
  return last === undefined || last[0] >= to ? all : [...all, [to, last[1]]];
}
