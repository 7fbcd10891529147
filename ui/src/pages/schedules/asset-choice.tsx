import { type ReactNode, useState } from "react";
import { useAnswer } from "../../api/use-answer.ts";

/** Assets that are shown at a time. */
const SHOWN_MAX = 50;

/** A choice of assets, with a search where there are many. */
export function AssetChoice(props: {
  chosen: readonly string[];
  onChange: (chosen: readonly string[]) => void;
}): ReactNode {
  const { chosen, onChange } = props;
  const [search, setSearch] = useState("");
  const assets = useAnswer("listAssets", { query: { limit: 200 } });
  const known = (assets.data?.items ?? []).map(({ asset_key }) => asset_key);
  const others = known.filter((key) => !chosen.includes(key) && key.includes(search.trim()));
  const shown = [...chosen, ...others].toSorted().slice(0, SHOWN_MAX);
  const toggle = (key: string): void =>
    onChange(chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen, key]);
  return (
    <fieldset>
      <legend>Assets</legend>
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
        <p className="soft">
          {known.length === 0 ? "No asset is defined yet." : "No asset has a name like that."}
        </p>
      )}
    </fieldset>
  );
}
