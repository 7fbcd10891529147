import { type ReactNode, useId, useState } from "react";
import type { ListAnswer } from "../../../api/use-answer.ts";
import { Field } from "../../../parts/field.tsx";
import { Empty } from "../../../parts/notice.tsx";
import { More } from "../../../parts/table.tsx";
import { countText } from "../../../parts/time-text.ts";
import { type Asset, byFit, definitionText, FIT_TEXTS, fitOf, linked } from "./asset-fit.ts";

/** From how many assets on there is a field to search them by. */
const SEARCHED_FROM = 6;

/** Chooses assets, and says how each would go together with those that are chosen. */
export function AssetPicker(props: {
  list: ListAnswer<Asset>;
  assets: readonly Asset[];
  chosen: readonly string[];
  lead: Asset | null;
  problem: string | undefined;
  onChange: (chosen: string[]) => void;
}): ReactNode {
  const { assets, chosen, lead, problem, onChange } = props;
  const [search, setSearch] = useState("");
  const problemId = useId();
  const words = search.toLowerCase().split(/\s+/);
  const matches = assets.filter(({ asset_key, spec }) => {
    const labels = Object.entries(spec.labels).map(([name, value]) => `${name}=${value}`);
    const text = `${asset_key} ${spec.description ?? ""} ${labels.join(" ")}`.toLowerCase();
    return chosen.includes(asset_key) || words.every((word) => text.includes(word));
  });
  if (assets.length === 0) return <NoAssets />;
  const toggle = (key: string): void =>
    onChange(chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen, key]);
  return (
    <div className="stack">
      {assets.length >= SEARCHED_FROM && (
        <Field label="Search assets">
          {(control) => (
            <input
              {...control}
              type="search"
              value={search}
              onChange={(event) => setSearch(event.target.value)}
            />
          )}
        </Field>
      )}
      <fieldset
        className="create-list"
        aria-describedby={problem === undefined ? undefined : problemId}
      >
        <legend className="visually-hidden">Assets</legend>
        {chosen
          .filter((key) => !assets.some(({ asset_key }) => asset_key === key))
          .map((key) => (
            <div key={key} className="create-line">
              <label className="create-check">
                <input type="checkbox" checked onChange={() => toggle(key)} />
                <span className="mono">{key}</span>
              </label>
              <span className="create-note">is not defined (any more)</span>
            </div>
          ))}
        {byFit(matches, chosen, lead).map((asset) => (
          <AssetLine
            key={asset.asset_key}
            asset={asset}
            lead={lead}
            isChosen={chosen.includes(asset.asset_key)}
            toggle={toggle}
          />
        ))}
        {matches.length === 0 && (
          <p className="soft">No asset has this in its name, description or labels.</p>
        )}
      </fieldset>
      <MoreAssets
        chosen={chosen}
        ways={[
          ["Add upstream", linked(assets, chosen, "upstream")],
          ["Add downstream", linked(assets, chosen, "downstream")],
          ["Add all found", search.trim() === "" ? [] : matches.filter(isMadeHere).map(keyOf)],
        ]}
        onChange={onChange}
      />
      {problem !== undefined && (
        <p id={problemId} className="field-problem">
          {problem}
        </p>
      )}
      <More list={props.list} />
    </div>
  );
}

const keyOf = ({ asset_key }: Asset): string => asset_key;
const isMadeHere = ({ spec }: Asset): boolean => spec.external !== true;

/** Buttons that choose further assets at once, each with how many those are. */
function MoreAssets(props: {
  chosen: readonly string[];
  ways: readonly (readonly [string, readonly string[]])[];
  onChange: (chosen: string[]) => void;
}): ReactNode {
  const { chosen, ways, onChange } = props;
  const offers = ways
    .map(([name, keys]) => ({ name, added: keys.filter((key) => !chosen.includes(key)) }))
    .filter(({ added }) => added.length > 0);
  if (offers.length === 0) return null;
  return (
    <div className="row">
      {offers.map(({ name, added }) => (
        <button
          key={name}
          type="button"
          className="button"
          onClick={() => onChange([...chosen, ...added])}
        >
          {name} ({countText(added.length)})
        </button>
      ))}
    </div>
  );
}

function AssetLine(props: {
  asset: Asset;
  lead: Asset | null;
  isChosen: boolean;
  toggle: (key: string) => void;
}): ReactNode {
  const { asset, lead, isChosen } = props;
  const { asset_key, spec, partition_count } = asset;
  const noteId = useId();
  const count = partition_count === null ? "" : `, ${countText(partition_count)} partitions`;
  const fit = FIT_TEXTS[fitOf(asset, lead)];
  return (
    <div className="create-line">
      <label className="create-check">
        <input
          type="checkbox"
          checked={isChosen}
          aria-describedby={noteId}
          onChange={() => props.toggle(asset_key)}
        />
        <span className="mono">{asset_key}</span>
      </label>
      <span id={noteId} className="create-note">
        {definitionText(spec.partitions)}
        {count}
        {fit === "" ? "" : ` – ${fit}`}
      </span>
    </div>
  );
}

function NoAssets(): ReactNode {
  return (
    <Empty title="There are no assets yet.">
      <p>
        A backfill fills the partitions of assets. Define one in <code>pawl.config.ts</code>; it
        appears here as soon as the server has read it.
      </p>
    </Empty>
  );
}
