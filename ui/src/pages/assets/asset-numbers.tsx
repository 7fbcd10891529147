import type { ReactNode } from "react";
import { Link } from "wouter";
import { numberText } from "../../../../src/kernel/metadata-value.ts";
import type { AssetNumbers } from "../../../../src/work/asset/metadata-api.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { ValueChart } from "../../parts/value-chart.tsx";
import type { ChartValue } from "../../parts/value-scale.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { assetHref } from "./asset-links.ts";

/** Partitions that are looked at together. */
const WINDOW = 200;

/** A number of the metadata of an asset's partitions, one partition after the other or as they were made. */
export function AssetNumbersView({ assetKey }: { assetKey: string }): ReactNode {
  const [filters, setFilter] = useFilters(["from", "name", "order"]);
  const from = /^\d{1,15}$/.test(filters.from) ? { from: Number(filters.from) } : {};
  const answer = useAnswer("listPartitionNumbers", {
    params: { asset_key: assetKey },
    query: { ...from, limit: WINDOW },
  });
  return (
    <Loaded answer={answer}>
      {(numbers) => (
        <Numbers
          numbers={numbers}
          name={filters.name}
          isByTime={filters.order === "time"}
          setFilter={setFilter}
        />
      )}
    </Loaded>
  );
}

function Numbers(props: {
  numbers: AssetNumbers;
  name: string;
  isByTime: boolean;
  setFilter: (name: "from" | "name" | "order", value: string) => void;
}): ReactNode {
  const { numbers, isByTime, setFilter } = props;
  const { names, items, asset_key } = numbers;
  const shown = names.find(({ name }) => name === props.name) ?? names[0];
  if (shown === undefined) {
    return (
      <>
        <Empty title="No numbers in the metadata of these partitions.">
          A task that returns metadata such as rows: 5 has them drawn here.
        </Empty>
        <Window numbers={numbers} setFilter={setFilter} />
      </>
    );
  }
  const unit = shown.unit ?? undefined;
  const said = items.filter(({ numbers: own }) => own[shown.name] !== undefined);
  const rows = isByTime ? said.toSorted((a, b) => a.pos - b.pos) : said;
  const values = rows.map(
    ({ partition_key, numbers: own }): ChartValue => ({
      key: partition_key,
      name: partition_key,
      value: own[shown.name] ?? 0,
    }),
  );
  return (
    <>
      <div className="filters">
        <Choice
          label="Number"
          value={shown.name}
          options={names.map(({ name }) => [name, name] as const)}
          onChange={(value) => setFilter("name", value)}
        />
        <Choice
          label="Order"
          value={isByTime ? "time" : ""}
          options={[
            ["", "By partition"],
            ["time", "By time materialized"],
          ]}
          onChange={(value) => setFilter("order", value)}
        />
      </div>
      <ValueChart label={shown.name} unit={unit} values={values} />
      <Window numbers={numbers} setFilter={setFilter} />
      <details>
        <summary>Values</summary>
        <Table
          label={`${visibleText(shown.name)} by partition`}
          columns={[
            {
              heading: "Partition",
              cell: ({ partition_key }) => (
                <Link href={assetHref(asset_key, partition_key)}>{partition_key}</Link>
              ),
            },
            {
              heading: shown.name,
              align: "end",
              cell: ({ numbers: own }) => numberText(own[shown.name] ?? 0, unit),
            },
            {
              heading: "Materialized",
              cell: ({ materialized_at }) => <Time at={materialized_at} />,
            },
          ]}
          rows={rows.toReversed()}
          keyOf={({ partition_key }) => partition_key}
        />
      </details>
    </>
  );
}

/** Which partitions are looked at, and the way to the others. */
function Window(props: {
  numbers: AssetNumbers;
  setFilter: (name: "from", value: string) => void;
}): ReactNode {
  const { from, through, total } = props.numbers;
  if (through - from >= total) return null;
  const go = (ordinal: number) => () => props.setFilter("from", String(ordinal));
  return (
    <div className="row">
      <span className="soft">
        Partitions {countText(from + 1)} to {countText(through)} of {countText(total)}
      </span>
      <button
        type="button"
        className="button"
        disabled={from === 0}
        onClick={go(Math.max(0, from - WINDOW))}
      >
        Earlier
      </button>
      <button type="button" className="button" disabled={through >= total} onClick={go(through)}>
        Later
      </button>
    </div>
  );
}
