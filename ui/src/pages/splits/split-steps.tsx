import type { ReactNode } from "react";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { RunLink } from "../../parts/facts.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { Lasted, Moment } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";

type Step = AnswerOf<"listSplitSteps">["items"][number];

const COLUMNS: readonly Column<Step>[] = [
  { heading: "Step", cell: ({ n, step }) => `${n} ${step}` },
  { heading: "State", cell: ({ state, outcome }) => <Status state={outcome ?? state} /> },
  {
    heading: "Requested",
    cell: ({ requested_at }) => <Moment at={requested_at} />,
    wideOnly: true,
  },
  {
    heading: "Took",
    cell: ({ started_at, finished_at }) => <Lasted from={started_at} to={finished_at} />,
    align: "end",
  },
  {
    heading: "Run",
    cell: ({ run_id }) => <RunLink runId={run_id} />,
  },
  {
    heading: "Note",
    cell: ({ reason, error }) => (
      <span className="splits-note">{visibleText(error?.message ?? reason ?? "")}</span>
    ),
  },
];

/** The steps of a split, newest first. */
export function useSteps(splitId: string): ListAnswer<Step> {
  return useList("listSplitSteps", { params: { split: splitId }, query: { limit: 20 } });
}

/** The steps that a split was done in, newest first, each with the run that did it. */
export function SplitSteps({ splitId }: { splitId: string }): ReactNode {
  const list = useSteps(splitId);
  return (
    <ListTable
      label="Steps"
      list={list}
      columns={COLUMNS}
      keyOf={({ n }) => n}
      empty={<Empty title="No steps yet." />}
    />
  );
}
