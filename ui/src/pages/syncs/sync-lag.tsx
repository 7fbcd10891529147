import { type ReactNode, useMemo } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Plot } from "../../parts/plot.tsx";
import { Section } from "../../parts/page.tsx";
import type { Sync } from "./sync-texts.ts";

/** Samples are taken every ten seconds. */
const SAMPLE_MS = 10_000;

/** How far a sync was behind its head over the last hours. */
export function SyncLag({ sync }: { sync: Sync }): ReactNode {
  const series = `sync_lag_blocks:${sync.sync_id}`;
  const answer = useAnswer("listSamples", { query: { series } }, { everyMs: SAMPLE_MS });
  return (
    <Section title="Behind the head">
      <Loaded answer={answer}>
        {({ items }) => {
          const points = items[0]?.points ?? [];
          if (points.length > 0) return <Line points={points} />;
          return (
            <Empty title="There is no line yet.">
              <p>
                {sync.to_limit === null
                  ? "How far it is behind is written down every ten seconds once it follows its head."
                  : "It ends at a fixed block, so it follows no head."}
              </p>
            </Empty>
          );
        }}
      </Loaded>
    </Section>
  );
}

function Line({ points }: { points: readonly [number, number][] }): ReactNode {
  const series = useMemo(
    () => [{ name: "behind", points: [...points], kind: "line" as const }],
    [points],
  );
  return (
    <div className="card">
      <Plot label="Behind the head" unit="blocks" series={series} height={160} />
    </div>
  );
}
