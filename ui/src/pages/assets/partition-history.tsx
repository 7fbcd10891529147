import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { numbersIn, numberText } from "../../../../src/kernel/metadata-value.ts";
import type { SaidMetadata } from "../../../../src/work/asset/metadata-api.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Id } from "../../parts/facts.tsx";
import { Table } from "../../parts/table.tsx";
import { momentText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { ValueChart } from "../../parts/value-chart.tsx";
import type { ChartValue } from "../../parts/value-scale.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** More than are kept of a partition. */
const HISTORY_MAX = 200;

/** The numbers that materializations of a partition said, over time; nothing where there is only one. */
export function PartitionHistory(props: { assetKey: string; partitionKey: string }): ReactNode {
  const { assetKey, partitionKey } = props;
  const [wish, setWish] = useState("");
  const { data } = useAnswer("listPartitionMetadata", {
    params: { asset_key: assetKey },
    query: { limit: HISTORY_MAX, ...(partitionKey === "" ? {} : { partition: partitionKey }) },
  });
  const said = (data?.items ?? []).map((item) => ({ item, numbers: numbersIn(item.metadata) }));
  const names = [...new Set(said.flatMap(({ numbers }) => numbers.map(({ name }) => name)))];
  const name = names.includes(wish) ? wish : names[0];
  if (name === undefined || said.length < 2) return null;
  const rows = said.flatMap(({ item, numbers }) => {
    const number = numbers.find((each) => each.name === name);
    return number === undefined ? [] : [{ item, number }];
  });
  const unit = rows[0]?.number.unit;
  const values = rows.toReversed().map(
    ({ item, number }): ChartValue => ({
      key: String(item.pos),
      name: momentText(item.materialized_at),
      value: number.value,
    }),
  );
  return (
    <section className="assets-history" aria-label="Numbers over time">
      {names.length > 1 && (
        <div className="filters">
          <Choice
            label="Number"
            value={name}
            options={names.map((each) => [each, each] as const)}
            onChange={setWish}
          />
        </div>
      )}
      <ValueChart label={name} unit={unit} values={values} />
      <details>
        <summary>Values over time</summary>
        <Table
          label={`${visibleText(name)} over time`}
          columns={[
            { heading: "Materialized", cell: ({ item }) => <Time at={item.materialized_at} /> },
            {
              heading: name,
              align: "end",
              cell: ({ number }) => numberText(number.value, number.unit),
            },
            { heading: "By", cell: ({ item }) => <By said={item} /> },
            { heading: "Code version", wideOnly: true, cell: ({ item }) => item.code_version },
          ]}
          rows={rows}
          keyOf={({ item }) => item.pos}
        />
      </details>
    </section>
  );
}

function By({ said }: { said: SaidMetadata }): ReactNode {
  if (said.run_id === null) return `reported by ${said.reported_by}`;
  return (
    <Link href={`/runs/${encodeURIComponent(said.run_id)}`}>
      <Id id={said.run_id} />
    </Link>
  );
}
