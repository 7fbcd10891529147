import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { Field } from "../../parts/field.tsx";
import { CutoverGate } from "./cutover-gate.tsx";
import { effectOf, leadingCommand, type SplitCommand, whyNot } from "./split-commands.ts";
import { isEnded, planAgainHref, sentence, type Split, tenantsText } from "./split-texts.ts";

/** The commands in two groups, each in an order that never changes: onwards, and aside. */
const GROUPS: readonly (readonly (readonly [command: SplitCommand, label: string])[])[] = [
  [
    ["start-dual-write", "Start dual write"],
    ["run-backfill", "Run backfill"],
    ["cutover", "Cut over"],
    ["complete", "Complete"],
  ],
  [
    ["rollback", "Roll back"],
    ["resume", "Resume"],
    ["ddl", "Change schema"],
  ],
];

/** Everything that can be done with a split, each with what comes of it or why it makes no sense. */
export function SplitActions({ split }: { split: Split }): ReactNode {
  if (isEnded(split) && split.next.commands.length === 0) {
    return (
      <p className="card">The split is complete: there is nothing left to do, and no way back.</p>
    );
  }
  if (split.phase !== "rolled_back") return <Commands split={split} />;
  return (
    <>
      <p className="card">
        The split was rolled back. Its plan can be run again, or the same tenants{" "}
        <Link href={planAgainHref(split)}>planned again</Link> in another one.
      </p>
      <Commands split={split} />
    </>
  );
}

function Commands({ split }: { split: Split }): ReactNode {
  return (
    <div className="splits-commands">
      {GROUPS.map((commands) => (
        <ul key={commands[0]?.[0]}>
          {commands.map(([command, label]) => {
            const effect = effectOf(split, command);
            return (
              <li key={command}>
                <SplitAction split={split} command={command} label={label} />
                <span className={effect === null ? "soft" : undefined}>
                  {effect === null ? whyNot(split, command) : sentence(effect)}
                </span>
              </li>
            );
          })}
        </ul>
      ))}
    </div>
  );
}

function toneOf(split: Split, command: SplitCommand): "plain" | "primary" | "danger" {
  if (effectOf(split, command) === null) return "plain";
  if (command === "rollback") return "danger";
  return leadingCommand(split) === command ? "primary" : "plain";
}

function SplitAction(props: { split: Split; command: SplitCommand; label: string }): ReactNode {
  const { split, command, label } = props;
  const [ddl, setDdl] = useState("");
  return (
    <Action
      label={label}
      tone={toneOf(split, command)}
      asksReason
      verb={command === "ddl" ? "ddl" : "write"}
      unavailable={whyNot(split, command)}
      consequence={<Consequence split={split} command={command} />}
      version={split.state_version}
      run={(reason, version) => carryOut(split, command, version, reason, ddl)}
      onDone={() => setDdl("")}
    >
      {command === "ddl" && (
        <Field
          label="Statement"
          hint="One statement, as both shards run it, such as: alter table orders add column note text"
        >
          {(control) => (
            <textarea
              {...control}
              className="mono"
              rows={3}
              required
              spellCheck={false}
              value={ddl}
              onChange={(event) => setDdl(event.target.value)}
            />
          )}
        </Field>
      )}
    </Action>
  );
}

function Consequence(props: { split: Split; command: SplitCommand }): ReactNode {
  const { split, command } = props;
  const { source, target, tenants } = split;
  const effect = effectOf(split, command);
  return (
    <div className="stack">
      <p>
        {source} → {target}: <strong>{tenantsText(tenants)}</strong>
      </p>
      {effect !== null && <p>{sentence(effect)}</p>}
      <More split={split} command={command} />
      {command === "cutover" && <CutoverGate split={split} />}
    </div>
  );
}

/** What is worth knowing besides, in the middle of the night. */
function More({ split, command }: { split: Split; command: SplitCommand }): ReactNode {
  const { source, target, phase } = split;
  switch (command) {
    case "start-dual-write":
      return (
        <p>
          Applications notice a short lock on each table. {source} goes on serving, and it can be
          rolled back at any time.
        </p>
      );
    case "run-backfill":
      return (
        <p>
          {source} goes on serving. When the copy is caught up and verified the split waits there
          {split.auto_cutover ? ", and cuts over by itself." : " until you cut over."}
        </p>
      );
    case "complete":
      return (
        <p>
          <strong>After this there is no way back.</strong> What was written to {source} past the
          router since the cutover goes with its rows.
        </p>
      );
    case "rollback":
      return phase === "reversible" ? (
        <p>
          This is a second cutover, in the other direction: writes stand still for a moment, and
          nothing that was written is lost.
        </p>
      ) : (
        <p>{source} goes on serving; applications notice nothing.</p>
      );
    case "ddl":
      return (
        <p>
          It is run on the shard that serves ({phase === "reversible" ? target : source}) and
          carried over to the other between the same two writes. The copy is compared as a whole
          again afterwards.
        </p>
      );
    default:
      return null;
  }
}

function carryOut(
  split: Split,
  command: SplitCommand,
  version: number | undefined,
  reason: string,
  ddl: string,
): Promise<{ message: string }> {
  const params = { split: split.id };
  const body = {
    expected_state_version: version ?? split.state_version,
    ...(reason === "" ? {} : { reason }),
  };
  switch (command) {
    case "start-dual-write":
      return call("startDualWrite", { params, body });
    case "run-backfill":
      return call("runSplitBackfill", { params, body });
    case "cutover":
      return call("cutOverSplit", { params, body });
    case "complete":
      return call("completeSplit", { params, body });
    case "rollback":
      return call("rollBackSplit", { params, body });
    case "resume":
      return call("resumeSplit", { params, body });
    case "ddl":
      return call("changeSplitSchema", { params, body: { ...body, ddl } });
  }
}
