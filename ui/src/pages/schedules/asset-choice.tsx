import { type ReactNode, useId, useState } from "react";
import { useList } from "../../api/use-answer.ts";
import { More } from "../../parts/table.tsx";

/** Assets that are shown at a time. */
const SHOWN_MAX = 50;

/** A choice of assets, with a search where there are many. */
export function AssetChoice(props: {
  chosen: readonly string[];
  problem: string | undefined;
  onChange: (chosen: readonly string[]) => void;
}): ReactNode {
  const { chosen, problem, onChange } = props;
  const [search, setSearch] = useState("");
  const assets = useList("listAssets", { query: { limit: 200 } });
  const known = (assets.data?.items ?? []).map(({ asset_key }) => asset_key);
  const others = known.filter((key) => !chosen.includes(key) && key.includes(search.trim()));
  const room = Math.max(0, SHOWN_MAX - chosen.length);
  const shown = [...chosen, ...others.slice(0, room)].toSorted();
  const toggle = (key: string): void =>
    onChange(chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen, key]);
  const problemId = useId();
  return (
    <fieldset aria-describedby={problem === undefined ? undefined : problemId}>
      <legend>Assets</legend>
      {problem !== undefined && (
        <p id={problemId} role="alert" className="field-problem">
          {problem}
        </p>
      )}
      {known.length > 8 && (
        <input
          type="search"
          aria-label="Search for assets"
          placeholder="Search"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
      )}
      <ul className="schedules-assets">
        {shown.map((key) => (
          <li key={key}>
            <label className="schedules-check">
              <input type="checkbox" checked={chosen.includes(key)} onChange={() => toggle(key)} />
              {key}
            </label>
          </li>
        ))}
      </ul>
      {shown.length === 0 && (
        <p className="soft">{known.length === 0 ? "No assets yet." : "No asset matches."}</p>
      )}
      <More list={assets} />
    </fieldset>
  );
}
