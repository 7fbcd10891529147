import { type ReactNode, useRef, useState } from "react";
import { useLocation } from "wouter";
import type { AssetDocument } from "../../../../src/work/asset/api.ts";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { countText } from "../../parts/time-text.ts";
import { useOnceKey } from "../../parts/use-once-key.ts";
import { useAllAssets } from "../assets/use-all-assets.ts";
import { labelsOf, linesOf } from "./typed-lines.ts";
import { runHref } from "./run-texts.ts";

/** Assets that are offered at a time; the search finds the others. */
const SHOWN_MAX = 50;

/** Asks for one run of some assets, and goes there. */
export function RequestRun(): ReactNode {
  const [assets, setAssets] = useState<readonly string[]>([]);
  const [keys, setKeys] = useState("");
  const [labels, setLabels] = useState("");
  const [, go] = useLocation();
  const made = useRef("");
  const keyOf = useOnceKey();
  const run = async (): Promise<{ message: string }> => {
    const partition_keys = linesOf(keys);
    const body = {
      assets: [...assets],
      ...(partition_keys.length === 0 ? {} : { partition_keys }),
      ...(labels.trim() === "" ? {} : { labels: labelsOf(labels) }),
    };
    const answer = await call("requestRun", { body, idempotencyKey: keyOf(body) });
    made.current = answer.run_id;
    return answer;
  };
  return (
    <Action
      label="Request a run"
      tone="primary"
      consequence={
        <p>
          The assets run once, in the order of their lineage, as soon as a worker is free. The
          results replace earlier ones.
        </p>
      }
      run={run}
      onDone={() => {
        setAssets([]);
        setKeys("");
        setLabels("");
        go(runHref(made.current));
      }}
    >
      <AssetChoice chosen={assets} onChange={setAssets} />
      <Field
        label="Partition keys"
        hint="One per line; empty for assets without partitions. For many, create a backfill."
      >
        {(control) => (
          <textarea
            {...control}
            rows={3}
            spellCheck={false}
            value={keys}
            onChange={(event) => setKeys(event.target.value)}
          />
        )}
      </Field>
      <Field label="Labels (optional)" hint="One per line, as name=value.">
        {(control) => (
          <textarea
            {...control}
            rows={2}
            spellCheck={false}
            value={labels}
            onChange={(event) => setLabels(event.target.value)}
          />
        )}
      </Field>
    </Action>
  );
}

function AssetChoice(props: {
  chosen: readonly string[];
  onChange: (chosen: readonly string[]) => void;
}): ReactNode {
  const { chosen, onChange } = props;
  const [search, setSearch] = useState("");
  const toggle = (key: string): void =>
    onChange(chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen, key]);
  return (
    <fieldset className="runs-assets">
      <legend>Assets</legend>
      <input
        type="search"
        aria-label="Search for assets"
        placeholder="Search"
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      <Loaded answer={useAllAssets()}>
        {({ items }) => {
          const fitting = choiceOf(items, chosen, search.trim().toLowerCase());
          if (fitting.length === 0) return <p className="soft">No asset has a name like that.</p>;
          return (
            <>
              <ul>
                {fitting.slice(0, SHOWN_MAX).map((asset) => (
                  <li key={asset.asset_key}>
                    <label>
                      <input
                        type="checkbox"
                        checked={chosen.includes(asset.asset_key)}
                        onChange={() => toggle(asset.asset_key)}
                      />{" "}
                      {asset.asset_key} <span className="soft">{partitionsOf(asset)}</span>
                    </label>
                  </li>
                ))}
              </ul>
              {fitting.length > SHOWN_MAX && (
                <p className="soft">
                  {countText(fitting.length - SHOWN_MAX)} more; search to see them.
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </fieldset>
  );
}

/** Those that are chosen, which stay in sight, then those that the search finds. */
function choiceOf(
  assets: readonly AssetDocument[],
  chosen: readonly string[],
  search: string,
): AssetDocument[] {
  const isChosen = ({ asset_key }: AssetDocument) => chosen.includes(asset_key);
  return [
    ...assets.filter(isChosen),
    ...assets.filter((asset) => !isChosen(asset) && asset.asset_key.toLowerCase().includes(search)),
  ];
}

function partitionsOf({ spec: { partitions } }: AssetDocument): string {
  return partitions === null ? "no partitions" : partitions.type;
}
