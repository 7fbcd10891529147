import type { ReactNode } from "react";
import type { PartitionDefinition } from "../../../../../src/kernel/keyspace/definition.ts";
import { countText } from "../../../parts/time-text.ts";
import { type Asset, kindsOf } from "./asset-fit.ts";
import { isNarrowable, type Problems } from "./create-body.ts";
import type { CreateForm, DimensionWish, SelectorKind } from "./create-form.ts";
import { DimensionFilter } from "./dimension-filter.tsx";
import { KeyList } from "./key-list.tsx";
import { RangeFields } from "./range-fields.tsx";
import { LeftFields, OnlyField, StaleFields } from "./survey-fields.tsx";
import { type Dimension, dimensionsIn, useDimension } from "./use-dimension.ts";

type BuilderProps = {
  /** The asset whose partitions are chosen. */
  asset: Asset;
  form: CreateForm;
  problems: Problems;
  /** The key that the API does not know. */
  wrongKey: string | null;
  onChange: (fields: Partial<CreateForm>) => void;
};

/** Chooses partitions in a way that fits how the asset is cut. */
export function SelectorBuilder(props: BuilderProps): ReactNode {
  const { asset, form, problems, onChange } = props;
  const definition = asset.spec.partitions;
  const kinds = kindsOf(definition);
  // An address may ask for a way that is not offered here; it is shown all the same.
  const shown = form.kind === null || kinds.includes(form.kind) ? kinds : [form.kind, ...kinds];
  return (
    <div className="stack">
      {shown.length > 1 && (
        <div className="create-kinds" role="radiogroup" aria-label="Which partitions">
          {shown.map((kind) => (
            <label key={kind} className="create-kind">
              <input
                type="radio"
                name="create-kind"
                checked={form.kind === kind}
                onChange={() => onChange({ kind })}
              />
              {kindText(kind, definition)}
            </label>
          ))}
        </div>
      )}
      <KindFields {...props} definition={definition} />
      {isNarrowable(form.kind) && <OnlyField form={form} onChange={onChange} />}
      {problems["selector"] !== undefined && (
        <p className="field-problem">{problems["selector"]}</p>
      )}
    </div>
  );
}

function kindText(kind: SelectorKind, definition: PartitionDefinition | null): string {
  switch (kind) {
    case "range":
      return definition !== null && "time_zone" in definition ? "Time range" : "Range";
    case "keys":
      return "List of keys";
    case "filter":
      if (definition?.type === "multi") return "By dimension";
      return definition?.type === "static" || definition?.type === "dynamic" ? "Chosen" : "Pattern";
    case "all":
      return "Everything";
    case "stale":
      return "Stale";
    case "left":
      return "Remaining from a backfill";
  }
}

function KindFields(props: BuilderProps & { definition: PartitionDefinition | null }): ReactNode {
  const { asset, definition, form, problems, onChange } = props;
  switch (form.kind) {
    case "stale":
      return <StaleFields form={form} problems={problems} onChange={onChange} />;
    case "left":
      return <LeftFields form={form} problems={problems} onChange={onChange} />;
    default:
      if (definition !== null && form.kind !== "all" && form.kind !== null) {
        return <Partitioned {...props} definition={definition} />;
      }
      return <p className="soft">{everythingText(asset)}</p>;
  }
}

function everythingText({ asset_key, partition_count }: Asset): string {
  if (partition_count === null) {
    return `${asset_key} has no partitions: the backfill makes it as a whole, once.`;
  }
  return `All ${countText(partition_count)} partitions that ${asset_key} has now, without later ones.`;
}

function Partitioned(props: BuilderProps & { definition: PartitionDefinition }): ReactNode {
  const { asset, definition, form, problems, onChange } = props;
  const dimensions = dimensionsIn(definition);
  const [first] = dimensions;
  if (form.kind !== "filter" && first !== undefined) return <Along {...props} first={first} />;
  const setWish = (name: string, wish: DimensionWish | undefined): void => {
    const { [name]: _, ...rest } = form.filter;
    onChange({ filter: wish === undefined ? rest : { ...rest, [name]: wish } });
  };
  return (
    <div className="create-dimensions">
      {dimensions.map((dimension) => (
        <DimensionFilter
          key={`${asset.asset_key} ${dimension.name}`}
          assetKey={asset.asset_key}
          dimension={dimension}
          wish={form.filter[dimension.name]}
          problem={problems[`filter.${dimension.name}`]}
          onChange={(wish) => setWish(dimension.name, wish)}
        />
      ))}
    </div>
  );
}

/** Definitions whose keys have no comma in them. */
const COMMA_FREE: ReadonlySet<string> = new Set([
  "hourly",
  "daily",
  "weekly",
  "monthly",
  "integers",
]);

/** The keys of several dimensions, taken as plain texts. */
const WHOLE_KEYS: Dimension = {
  name: "",
  isOnly: true,
  definition: { type: "dynamic", name: "keys" },
};

/** A range or a list of whole keys. */
function Along(
  props: BuilderProps & { definition: PartitionDefinition; first: Dimension },
): ReactNode {
  const { asset, definition, first, form, problems, wrongKey, onChange } = props;
  const facts = useDimension(asset.asset_key, definition.type === "multi" ? WHOLE_KEYS : first);
  if (form.kind === "keys") {
    return (
      <KeyList
        keys={form.keys}
        example={facts.bounds?.start ?? facts.calendar?.picks.at(-1)?.end}
        hasCommas={!COMMA_FREE.has(definition.type)}
        problem={problems["keys"]}
        wrongKey={wrongKey}
        onChange={(keys) => onChange({ keys })}
      />
    );
  }
  return (
    <RangeFields
      of=""
      range={{ start: form.start, end: form.end }}
      calendar={facts.calendar}
      bounds={facts.bounds}
      problems={{ start: problems["start"], end: problems["end"] }}
      onChange={onChange}
    />
  );
}
