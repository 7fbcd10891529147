import { type ReactNode, useState } from "react";
import type { NameTotals } from "../../../../src/work/sync/documents.ts";
import { call } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { Choice, Field } from "../../parts/field.tsx";

/** Adds a target to a sync that is defined. */
export function AddTarget({ names }: { names: readonly NameTotals[] }): ReactNode {
  const defined = names.filter((one) => one.defined).map(({ name }) => name);
  const [chosen, setChosen] = useState("");
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [text, setText] = useState("");
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const name = defined.includes(chosen) ? chosen : (defined[0] ?? "");
  const fields = useFields(name);
  const target = fields.length > 0 ? pick(fields, values) : fieldsOfText(text);
  return (
    <Action
      label="Add a target"
      consequence={
        <p>
          The target is synced like the others of {name}, from its first block, until it is removed
          here. It starts when the head of its source is known.
        </p>
      }
      unavailable={
        defined.length === 0
          ? "No sync is defined; define one with sync() and publish it with `pawl deploy`."
          : null
      }
      run={() =>
        call("addSync", {
          body: {
            name,
            target,
            ...(from === "" ? {} : { from_block: Number(from) }),
            ...(to === "" ? {} : { to_block: Number(to) }),
          },
        })
      }
      onDone={() => {
        setValues({});
        setText("");
      }}
    >
      <Choice
        label="Sync"
        value={name}
        options={defined.map((one) => [one, one] as const)}
        onChange={setChosen}
      />
      {fields.map((field) => (
        <Text
          key={field}
          label={field}
          value={values[field] ?? ""}
          isRequired
          onChange={(value) => setValues({ ...values, [field]: value })}
        />
      ))}
      {fields.length === 0 && (
        <Text
          label="Target (field=value, separated by commas)"
          value={text}
          isRequired
          onChange={setText}
        />
      )}
      <div className="row">
        <Block label="From block (as defined)" value={from} onChange={setFrom} />
        <Block label="To block (as defined)" value={to} onChange={setTo} />
      </div>
    </Action>
  );
}

/** The fields of a target, as another target of the same sync has them. */
function useFields(name: string): string[] {
  const query = {
    name,
    limit: 1,
    status: "PENDING,RUNNING,PAUSED,COMPLETE,FOLLOWING,FAILED,REMOVED",
  };
  const answer = useAnswer("listSyncs", { query }, { enabled: name !== "" });
  return Object.keys(answer.data?.items[0]?.target ?? {});
}

function pick(fields: readonly string[], values: Readonly<Record<string, string>>) {
  return Object.fromEntries(fields.map((field) => [field, (values[field] ?? "").trim()]));
}

function fieldsOfText(text: string): Record<string, string> {
  const pairs = text.split(",").map((part): [string, string] => {
    const at = part.indexOf("=");
    return at < 0 ? [part.trim(), ""] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
  });
  return Object.fromEntries(pairs);
}

function Text(props: {
  label: string;
  value: string;
  isRequired?: boolean;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field label={props.label}>
      {(control) => (
        <input
          {...control}
          required={props.isRequired}
          maxLength={4_000}
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

function Block(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field label={props.label}>
      {(control) => (
        <input
          {...control}
          type="number"
          min={0}
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
