import { type ReactNode, useState } from "react";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { expected, type Sync, whyNotSync } from "./sync-texts.ts";

/** Changes how many segments of a sync run at once, and which syncs go first. */
export function RetuneSync({ sync }: { sync: Sync }): ReactNode {
  const [parallel, setParallel] = useState<string | null>(null);
  const [priority, setPriority] = useState<string | null>(null);
  const shownParallel = parallel ?? textOf(sync.max_parallel);
  const shownPriority = priority ?? textOf(sync.priority);
  const forget = (): void => {
    setParallel(null);
    setPriority(null);
  };
  return (
    <Action
      label="Retune"
      consequence={
        <p>
          Changes how many segments run concurrently; running segments finish. Syncs with a higher
          priority get workers first. Leave a field empty to use the definition.
        </p>
      }
      unavailable={whyNotSync(sync, "retune")}
      version={sync.state_version}
      run={(_, version) =>
        call("retuneSync", {
          params: { sync: sync.sync_id },
          // What nobody touched may be the definition's word, and has to stay so.
          body: {
            ...expected(version),
            ...(parallel === null ? {} : { max_parallel: numberOf(parallel) }),
            ...(priority === null ? {} : { priority: numberOf(priority) }),
          },
        })
      }
      onDone={forget}
    >
      <Field label="Concurrent segments (1 to 1,000)">
        {(control) => (
          <input
            {...control}
            type="number"
            min={1}
            max={1_000}
            value={shownParallel}
            onChange={(event) => setParallel(event.target.value)}
          />
        )}
      </Field>
      <Field label="Priority (−100 to 100)">
        {(control) => (
          <input
            {...control}
            type="number"
            min={-100}
            max={100}
            value={shownPriority}
            onChange={(event) => setPriority(event.target.value)}
          />
        )}
      </Field>
    </Action>
  );
}

function textOf(value: number | null): string {
  return value === null ? "" : String(value);
}

function numberOf(text: string): number | null {
  return text.trim() === "" ? null : Number(text);
}
