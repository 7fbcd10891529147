import { type ReactNode, useState } from "react";
import { call, Refusal } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { useShards } from "../../parts/use-shards.ts";
import { typedRoutes } from "./routing-texts.ts";

/** Changes the routing by hand, if it still has the version that is shown. */
export function ChangeRouting({ version }: { version: number }): ReactNode {
  const shards = useShards();
  const [defaultShard, setDefaultShard] = useState("");
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const run = async (reason: string, expected?: number): Promise<{ message: string }> => {
    const typed = typedRoutes(text);
    setProblem(typed.problem ?? undefined);
    if (typed.routes === null) {
      throw new Refusal({ code: "INPUT_INVALID", status: 400, detail: typed.problem });
    }
    const body = {
      expected_version: expected ?? version,
      routes: typed.routes,
      ...(defaultShard === "" ? {} : { default_shard: defaultShard }),
      ...(reason === "" ? {} : { reason }),
    };
    return call("changeRouting", { body });
  };
  return (
    <Action
      label="Change routing"
      tone="danger"
      asksReason
      unavailable={shards === null ? "No shards yet." : null}
      consequence={
        <div className="stack">
          <p>
            <strong>This moves no rows.</strong> Routers refresh within 30 s of a tenant's next use;
            until then writes may go to either shard. Use it for tenants without rows, or after a
            move. For tenants with live writes, plan a split.
          </p>
        </div>
      }
      version={version}
      run={run}
      onDone={() => {
        setDefaultShard("");
        setText("");
      }}
    >
      <Field label="Default shard">
        {(control) => (
          <select
            {...control}
            value={defaultShard}
            onChange={(event) => setDefaultShard(event.target.value)}
          >
            <option value="">unchanged</option>
            {(shards?.shards ?? []).map(({ shard }) => (
              <option key={shard} value={shard}>
                {shard}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Routes" problem={problem} hint="One per line, as tenant=shard. Others stay.">
        {(control) => (
          <textarea
            {...control}
            rows={4}
            spellCheck={false}
            aria-invalid={problem === undefined ? undefined : true}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
    </Action>
  );
}
