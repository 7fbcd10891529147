import type { ReactNode } from "react";
import type { WorkDocument } from "../../../../src/work/work-api.ts";
import { call } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { Facts, Id } from "../../parts/facts.tsx";
import { kindHref, kindTitle } from "../../parts/kind-names.ts";
import { Section } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { countText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { LedgerButtons, WorkPage } from "../../parts/work-page.tsx";
import { WorkProgress } from "./work-progress.tsx";

/** Some work of a kind without pages of its own: where it stands, and what can be asked of it. */
export function KindPage(): ReactNode {
  const kind = useAddressName();
  const id = useAddressName(3);
  const answer = useAnswer("getWork", { params: { kind, id } });
  return (
    <WorkPage
      answer={answer}
      list={{ text: kindTitle(kind), href: kindHref(kind) }}
      title={`${kindTitle(kind).slice(0, -1)} ${id}`}
      heading={
        <>
          {kindTitle(kind).slice(0, -1)} <Id id={id} />
        </>
      }
      state={({ state }) => <Status state={state} />}
      actions={() => <LedgerButtons entity={id} views={["events", "why", "history"]} />}
    >
      {(work) => <Shown key={work.id} work={work} />}
    </WorkPage>
  );
}

function Shown({ work }: { work: WorkDocument }): ReactNode {
  const { kind, id, state_version, progress, commands, created_at, details } = work;
  const { done, failed, total, unit } = progress;
  const all = total === null ? "" : ` of ${countText(total)}`;
  return (
    <>
      <div className="row">
        {commands.map(({ command, effect, why_not }) => (
          <Action
            key={command}
            label={labelOf(command)}
            tone={command === "cancel" && why_not === null ? "danger" : "plain"}
            asksReason
            unavailable={why_not}
            consequence={<p>It {effect}.</p>}
            version={state_version}
            run={(reason, version) =>
              call("changeWork", {
                params: { kind, id, command },
                body: {
                  expected_state_version: version ?? state_version,
                  ...(reason === "" ? {} : { reason }),
                },
              })
            }
          />
        ))}
      </div>
      <Section title="Progress">
        <WorkProgress work={work} />
        <Facts
          facts={[
            ["Done", `${countText(done)}${all} ${unit}`],
            ["Failed", countText(failed)],
            ["Created", <Moment key="created" at={created_at} />],
            ...Object.entries(details).map(
              ([name, value]) => [labelOf(name), textOf(value)] as const,
            ),
          ]}
        />
      </Section>
    </>
  );
}

function labelOf(name: string): string {
  const words = name.replaceAll("_", " ");
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
}

function textOf(value: unknown): string {
  return visibleText(typeof value === "string" ? value : JSON.stringify(value));
}
