import { type ReactNode, useCallback, useMemo, useState } from "react";
import type { AssetDocument, PartitionMap } from "../../../../src/work/asset/api.ts";
import type { PartitionDefinition } from "../../../../src/kernel/keyspace/definition.ts";
import { call } from "../../api/call.ts";
import { Loaded } from "../../parts/loaded.tsx";
import type { MapSelection } from "../../parts/map-geometry.ts";
import { Empty } from "../../parts/notice.tsx";
import { RunLengthMap, type RunLengthMapProps } from "../../parts/run-length-map.tsx";
import { countText } from "../../parts/time-text.ts";
import { chosenRange, chosenRectangle } from "./chosen-partitions.ts";
import { ChosenBar } from "./chosen-bar.tsx";
import { MAP_CELLS_MAX, type MapPlan, newestEnd, planMap } from "./map-plan.ts";
import { PartitionDetails } from "./partition-details.tsx";
import { useMapNames } from "./use-map-names.ts";
import { STALE_SHOWN_MAX, usePartitionMap } from "./use-partition-map.ts";
import { seenStretch, type Stretch, useSeenStretch } from "./use-seen-stretch.ts";

/** The pixels that a partition has at least before somebody wants to see more of them at once. */
const CELL_SIZE_MIN = 12;

type ViewProps = {
  asset: AssetDocument;
  definition: PartitionDefinition;
  /** The ordinal of the partition that is looked at. */
  marked: number | null;
  onOpen: (partitionKey: string) => void;
  /** The first ordinal of the map, where there are too many for one. */
  from: number;
  onFrom: (from: number) => void;
};

/** The partitions of an asset as a map that can be looked into and chosen from. */
export function PartitionMapView(props: ViewProps): ReactNode {
  const { asset, definition, from, onFrom } = props;
  const [seen, onSeen] = useSeenStretch(STALE_SHOWN_MAX);
  const map = usePartitionMap(asset.asset_key, { from, limit: MAP_CELLS_MAX, seen });
  return (
    <Loaded answer={map}>
      {(shown) =>
        shown.total === 0 ? (
          <NoPartitions definition={definition} />
        ) : (
          <>
            <DrawnMap key={placesOf(shown)} {...props} map={shown} onSeen={onSeen} />
            <StaleNote map={shown} {...map.stale} />
            <Stretches map={shown} onFrom={onFrom} />
          </>
        )
      }
    </Loaded>
  );
}

/** Changes when the cells of a map come to stand for others: what was chosen is then void. */
function placesOf({ from, dimensions }: PartitionMap): string {
  return [from, ...dimensions.map(({ stride }) => stride)].join(" ");
}

function StaleNote(props: {
  map: PartitionMap;
  asked: Stretch | null;
  told: PartitionMap | undefined;
}): ReactNode {
  const { map, asked, told } = props;
  if (asked === null) {
    return (
      <p className="soft">
        With so many partitions in view, stale ones are shown as materialized. Zoom in to{" "}
        {countText(STALE_SHOWN_MAX)} partitions or fewer to see them.
      </p>
    );
  }
  if (told === undefined || (told.from === map.from && told.through === map.through)) return null;
  return (
    <p className="soft">
      Staleness is shown for partitions {countText(told.from)} to {countText(told.through - 1)};
      elsewhere it is shown as materialized.
    </p>
  );
}

function DrawnMap(
  props: ViewProps & { map: PartitionMap; onSeen: (seen: Stretch) => void },
): ReactNode {
  const { asset, definition, map, marked, onOpen, onSeen } = props;
  const { asset_key } = asset;
  const [selection, setSelection] = useState<MapSelection | null>(null);
  const plan = useMemo(() => planMap(definition, map.dimensions), [definition, map.dimensions]);
  const { nameOf, ...labels } = useMapNames(asset_key, plan, map);
  const { from } = map;
  const ordinalAt = useCallback((cell: number): number => from + cell, [from]);
  const open = useCallback(
    (cell: number): void => {
      const input = { params: { asset_key }, query: { from: ordinalAt(cell), limit: 1 } };
      void call("listPartitionValues", input).then(({ items }) => {
        if (items[0] !== undefined) onOpen(items[0].value);
      });
    },
    [asset_key, ordinalAt, onOpen],
  );
  const detailsOf = useCallback(
    async (cell: number, signal: AbortSignal): Promise<ReactNode> => {
      const query = { from: ordinalAt(cell), limit: 1 };
      const page = await call("listAssetPartitions", { params: { asset_key }, query, signal });
      return page.items[0] === undefined ? null : <PartitionDetails partition={page.items[0]} />;
    },
    [asset_key, ordinalAt],
  );
  const isOne = selection !== null && selection.anchor === selection.end;
  return (
    <div className="stack">
      <RunLengthMap
        label={`Partitions of ${asset_key}`}
        noun="partition"
        cells={map.through - from}
        states={map.statuses}
        lengths={map.lengths}
        {...layoutOf(plan)}
        sizeMin={CELL_SIZE_MIN}
        startsAt={newestEnd(definition, plan)}
        {...labels}
        nameOf={(cell) => nameOf(ordinalAt(cell))}
        detailsOf={detailsOf}
        onOpen={open}
        onView={(view, layout) => onSeen(seenStretch(view, layout, from))}
        selection={selection}
        onSelect={setSelection}
        marked={marked === null || marked < from ? null : marked - from}
      />
      {selection === null ? (
        <p className="soft assets-hint">
          Drag over partitions, or hold shift with the arrow keys, to choose some for a backfill.
        </p>
      ) : (
        <ChosenBar
          assetKey={asset_key}
          chosen={chosenOf(selection, plan, map, ordinalAt)}
          dimensions={map.dimensions}
          onOpen={isOne ? () => open(selection.anchor) : null}
          onClear={() => setSelection(null)}
        />
      )}
    </div>
  );
}

function layoutOf(plan: MapPlan): Pick<RunLengthMapProps, "columns" | "down" | "lead" | "runsOn"> {
  if (plan.kind === "flow") return {};
  if (plan.kind === "grid")
    return plan.isTurned ? { down: plan.columns } : { columns: plan.columns };
  const { down, lead } = plan;
  return { down, lead, runsOn: true };
}

function chosenOf(
  { anchor, end }: MapSelection,
  plan: MapPlan,
  map: PartitionMap,
  ordinalAt: (cell: number) => number,
) {
  const moved = { anchor: ordinalAt(anchor), end: ordinalAt(end) };
  return plan.kind === "grid"
    ? chosenRectangle(moved, map.dimensions)
    : chosenRange(moved, map.total);
}

/** Leads from one map to the next where the partitions do not fit into one. */
function Stretches(props: { map: PartitionMap; onFrom: (from: number) => void }): ReactNode {
  const { map, onFrom } = props;
  if (map.total <= MAP_CELLS_MAX) return null;
  // Whole rows, so that a grid stays one.
  const columns = map.dimensions.at(-1)?.count ?? 1;
  const step = Math.max(columns, Math.floor(MAP_CELLS_MAX / columns) * columns);
  return (
    <nav className="row" aria-label="Stretches of the map">
      <span className="soft">
        Partitions {countText(map.from)} to {countText(map.through - 1)} of {countText(map.total)}
      </span>
      <button
        type="button"
        className="button"
        disabled={map.from === 0}
        onClick={() => onFrom(Math.max(0, map.from - step))}
      >
        Earlier
      </button>
      <button
        type="button"
        className="button"
        disabled={map.from + step >= map.total}
        onClick={() => onFrom(map.from + step)}
      >
        Later
      </button>
    </nav>
  );
}

function NoPartitions({ definition }: { definition: PartitionDefinition }): ReactNode {
  const isByHand =
    definition.type === "dynamic" ||
    (definition.type === "multi" &&
      Object.values(definition.dimensions).some(({ type }) => type === "dynamic"));
  return (
    <Empty title="No partitions yet.">
      {isByHand ? (
        <p>
          Its keys are added at run time: with “Add keys” above, with{" "}
          <code>pawl partitions add</code>, or by a sensor.
        </p>
      ) : (
        <p>The first partition exists once its period has ended.</p>
      )}
    </Empty>
  );
}
