import { type ReactNode, useState } from "react";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { countText } from "../../parts/time-text.ts";
import { expected, type Sync, whyNotSync } from "./sync-texts.ts";

/** Has exactly some blocks of a sync fetched again. */
export function RepairSync({ sync }: { sync: Sync }): ReactNode {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const count = Number(to) - Number(from) + 1;
  const isRange = from !== "" && to !== "" && count > 0;
  return (
    <Action
      label="Repair"
      tone="danger"
      asksReason
      consequence={
        <p>
          What was stored of these blocks is void and taken away, then they are fetched again.
          {isRange && ` That is ${countText(count)} ${count === 1 ? "block" : "blocks"}.`} Segments
          are cut so that no other block is touched. Until it is done, the sync counts as behind.
        </p>
      }
      unavailable={whyNotSync(sync, "repair")}
      version={sync.state_version}
      run={(reason, version) =>
        call("repairSync", {
          params: { sync: sync.sync_id },
          body: {
            ...expected(version),
            from_block: Number(from),
            to_block: Number(to),
            ...(reason === "" ? {} : { reason }),
          },
        })
      }
    >
      <Range sync={sync} from={from} to={to} setFrom={setFrom} setTo={setTo} isRequired />
    </Action>
  );
}

/** Has what is complete compared with the source, and fetched again where it differs if so wished. */
export function VerifySync({ sync }: { sync: Sync }): ReactNode {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [isRepaired, setIsRepaired] = useState(false);
  return (
    <Action
      label="Verify"
      consequence={
        <p>
          Complete segments in this range are compared with the source by the definition’s{" "}
          <code>verify</code>, beside other work.{" "}
          {isRepaired
            ? "What does not pass is void at once and fetched again."
            : "Nothing is changed: what does not pass is marked."}{" "}
          Leave the range empty for all that is complete.
        </p>
      }
      unavailable={whyNotSync(sync, "verify")}
      version={sync.state_version}
      run={(_, version) =>
        call("verifySync", {
          params: { sync: sync.sync_id },
          body: {
            ...expected(version),
            repair: isRepaired,
            ...(from === "" ? {} : { from_block: Number(from) }),
            ...(to === "" ? {} : { to_block: Number(to) }),
          },
        })
      }
    >
      <Range sync={sync} from={from} to={to} setFrom={setFrom} setTo={setTo} />
      <label className="row">
        <input
          type="checkbox"
          checked={isRepaired}
          onChange={(event) => setIsRepaired(event.target.checked)}
        />
        Repair what does not pass
      </label>
    </Action>
  );
}

function Range(props: {
  sync: Sync;
  from: string;
  to: string;
  setFrom: (text: string) => void;
  setTo: (text: string) => void;
  isRequired?: boolean;
}): ReactNode {
  const { sync, isRequired = false } = props;
  const limits = { min: sync.from_block, max: sync.to_block ?? undefined };
  return (
    <div className="row">
      <Field label="From block">
        {(control) => (
          <input
            {...control}
            {...limits}
            type="number"
            required={isRequired}
            value={props.from}
            onChange={(event) => props.setFrom(event.target.value)}
          />
        )}
      </Field>
      <Field label="To block, included">
        {(control) => (
          <input
            {...control}
            {...limits}
            type="number"
            required={isRequired}
            value={props.to}
            onChange={(event) => props.setTo(event.target.value)}
          />
        )}
      </Field>
    </div>
  );
}
