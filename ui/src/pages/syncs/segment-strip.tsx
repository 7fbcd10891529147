import { type ReactNode, useMemo } from "react";
import type { SegmentCell, SegmentMap } from "../../../../src/work/sync/documents.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { lookOf } from "../../parts/status-look.ts";
import { Strip } from "../../parts/strip.tsx";
import { countText } from "../../parts/time-text.ts";
import { useAddressQuery } from "../../parts/use-address.ts";
import { rangeText, type Sync, syncHref } from "./sync-texts.ts";

/** All segments of a sync in the order of their blocks; a cell opens its segment. */
export function SegmentStrip({ sync, open }: { sync: Sync; open: number | null }): ReactNode {
  const answer = useAnswer("mapSegments", { params: { sync: sync.sync_id } });
  return (
    <Section title="Segments">
      <Loaded answer={answer}>
        {(map) =>
          map.segments === 0 ? (
            <Empty title="No segments yet.">
              <p>
                {sync.head === null
                  ? "Segments are planned once a worker has read the head of the source. If none is running, start `pawl worker`."
                  : "Segments are planned once there are enough blocks."}
              </p>
            </Empty>
          ) : (
            <Cells sync={sync} map={map} open={open} />
          )
        }
      </Loaded>
    </Section>
  );
}

function Cells({
  sync,
  map,
  open,
}: {
  sync: Sync;
  map: SegmentMap;
  open: number | null;
}): ReactNode {
  const query = useAddressQuery().toString();
  const { sync_id } = sync;
  const cells = useMemo(
    () => map.cells.map((cell) => stripCell(cell, hrefOf(sync_id, cell, query))),
    [map, sync_id, query],
  );
  const marked = map.cells.findIndex(({ segment_index }) => segment_index === open);
  const shared = Math.ceil(map.segments / Math.max(1, map.cells.length));
  return (
    <div className="card">
      <Strip
        label={`Segments from block ${countText(sync.from_block)} on`}
        cells={cells}
        counts={map.counts}
        marked={marked < 0 ? null : marked}
      />
      {shared > 1 && (
        <p className="soft">Each cell is up to {shared} segments and shows the worst state.</p>
      )}
    </div>
  );
}

function stripCell(cell: SegmentCell, href: string) {
  const { status, segments, segment_index } = cell;
  const what = segments === 1 ? `Segment ${segment_index}` : `${countText(segments)} segments`;
  return { state: status, text: `${what}, ${rangeText(cell)}: ${lookOf(status).word}`, href };
}

/** A cell of one segment opens it; one of several lists them. */
function hrefOf(syncId: string, cell: SegmentCell, shown: string): string {
  const query = new URLSearchParams(shown);
  query.set("segment", String(cell.segment_index));
  if (cell.segments > 1) {
    query.set("view", "segments");
    query.set("from", String(cell.from_block));
    query.set("to", String(cell.to_block));
  }
  return `${syncHref(syncId)}?${query.toString()}`;
}
