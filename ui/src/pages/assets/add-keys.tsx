import { type ReactNode, useState } from "react";
import type { PartitionDefinition } from "../../../../src/kernel/keyspace/definition.ts";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Choice, Field } from "../../parts/field.tsx";
import { linesOf } from "../runs/typed-lines.ts";

/** The dimensions to which keys can be added; one without a name for a definition of one dimension. */
export function dynamicDimensions(definition: PartitionDefinition | null): string[] {
  if (definition === null) return [];
  if (definition.type !== "multi") return definition.type === "dynamic" ? [""] : [];
  return Object.entries(definition.dimensions).flatMap(([name, { type }]) =>
    type === "dynamic" ? [name] : [],
  );
}

/** Adds keys to an asset whose partitions are named at run time. */
export function AddKeys(props: { assetKey: string; dimensions: readonly string[] }): ReactNode {
  const { assetKey, dimensions } = props;
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(dimensions[0] ?? "");
  const dimension = chosen === "" ? {} : { dimension: chosen };
  return (
    <Action
      label="Add keys"
      consequence={
        <p>
          Each new key becomes a partition of <strong>{assetKey}</strong> and of all assets with the
          same definition. Existing keys stay. Keys cannot be removed.
        </p>
      }
      run={() =>
        call("addPartitionKeys", {
          params: { asset_key: assetKey },
          body: { keys: linesOf(text), ...dimension },
        })
      }
      onDone={() => setText("")}
    >
      {dimensions.length > 1 && (
        <Choice
          label="Dimension"
          value={chosen}
          options={dimensions.map((name) => [name, name] as const)}
          onChange={setChosen}
        />
      )}
      <Field label="Keys" hint="One per line.">
        {(control) => (
          <textarea
            {...control}
            rows={5}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
    </Action>
  );
}
