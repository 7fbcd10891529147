import { type ReactNode, useRef, useState } from "react";
import { useLocation } from "wouter";
import type { AnswerOf, PartInput } from "../../../../src/core/api/operations.ts";
import { call } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { labelsOf, linesOf } from "./typed-lines.ts";
import { runHref } from "./run-texts.ts";

type Body = PartInput<"requestRun", "body">;
type Asset = AnswerOf<"listAssets">["items"][number];

/** Assets from which the search makes a choice at a time. */
const SHOWN_MAX = 50;

/** Asks for one run of some assets, and goes there. */
export function RequestRun(): ReactNode {
  const [assets, setAssets] = useState<readonly string[]>([]);
  const [keys, setKeys] = useState("");
  const [labels, setLabels] = useState("");
  const [, go] = useLocation();
  const made = useRef("");
  const request = useRequestOnce();
  const run = async (): Promise<{ message: string }> => {
    const partition_keys = linesOf(keys);
    const answer = await request({
      assets: [...assets],
      ...(partition_keys.length === 0 ? {} : { partition_keys }),
      ...(labels.trim() === "" ? {} : { labels: labelsOf(labels) }),
    });
    made.current = answer.run_id;
    return answer;
  };
  return (
    <Action
      label="Request a run"
      tone="primary"
      consequence={
        <p>
          The assets are run once, together and in the order of their lineage, as soon as a worker
          is free. What they make takes the place of what they made before.
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
        hint="One on each line; leave it empty for assets without partitions. For many, create a backfill."
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
      <Field label="Labels (optional)" hint="One on each line, as name=value.">
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

/** Sends the same wish under the same key, so that a lost answer does not make a second run. */
function useRequestOnce(): (body: Body) => Promise<AnswerOf<"requestRun">> {
  const last = useRef({ text: "", key: "" });
  return async (body) => {
    const text = JSON.stringify(body);
    if (last.current.text !== text) last.current = { text, key: crypto.randomUUID() };
    const answer = await call("requestRun", { body, idempotencyKey: last.current.key });
    last.current = { text: "", key: "" };
    return answer;
  };
}

function AssetChoice(props: {
  chosen: readonly string[];
  onChange: (chosen: readonly string[]) => void;
}): ReactNode {
  const { chosen, onChange } = props;
  const [search, setSearch] = useState("");
  const assets = useAnswer("listAssets", { query: { limit: 200 } });
  const fitting = (assets.data?.items ?? []).filter(
    ({ asset_key }) => asset_key.includes(search.trim()) || chosen.includes(asset_key),
  );
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
      {fitting.length === 0 && <p className="soft">No asset has a name like that.</p>}
    </fieldset>
  );
}

function partitionsOf({ spec: { partitions } }: Asset): string {
  return partitions === null ? "no partitions" : partitions.type;
}
