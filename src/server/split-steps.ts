import type { SplitStepDocument } from "../core/api/split-documents.ts";
import type { EventData } from "../core/events/index.ts";
import { entitySubject } from "../core/fold/entity-subject.ts";
import { stepRunKey } from "../core/keys.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import { SplitStep } from "../core/step-protocol.ts";
import type { Reader } from "../store/store.ts";
import { type KeyedRun, runsOfKeys } from "./runs-of-keys.ts";

const EVENTS_MAX = 10_000;

type Settled = EventData<"SplitStepSettled">;

/** The steps of a split with these numbers, newest first: the run of each, and how it was settled. */
export async function splitSteps(
  reader: Reader,
  { split_id }: SplitRow,
  from: number,
  through: number,
): Promise<SplitStepDocument[]> {
  const refs = [];
  for (let n = through; n >= from; n--) {
    for (const step of SplitStep.options) {
      refs.push({ run_key: stepRunKey({ work: "split", split_id, step, n }), n, step });
    }
  }
  const runs = await runsOfKeys(reader, refs);
  const settled = await settledSteps(reader, split_id, runs);
  return runs.map((run) => documentOf(run, settled.get(run.n)));
}

/** How steps ended that have these runs; each is settled after its run was asked for. */
async function settledSteps(
  reader: Reader,
  splitId: string,
  runs: readonly KeyedRun<unknown>[],
): Promise<Map<number, Settled>> {
  if (runs.length === 0) return new Map();
  const events = await reader.events({
    after: Math.min(...runs.map(({ run }) => run.run_pos)),
    subjects: [entitySubject(splitId)],
    types: ["SplitStepSettled"],
    limit: EVENTS_MAX,
  });
  const all = events.map(({ data }) => JSON.parse(data) as Settled);
  return new Map(all.map((settled) => [settled.n, settled]));
}

function documentOf(
  { run, n, step }: KeyedRun<{ n: number; step: SplitStep }>,
  settled: Settled | undefined,
): SplitStepDocument {
  return {
    n,
    step,
    run_id: run.run_id,
    state: run.state,
    requested_at: run.requested_at,
    started_at: run.started_at,
    finished_at: run.finished_at,
    error: run.first_error,
    outcome: settled?.outcome ?? null,
    reason: settled?.reason ?? null,
    report: settled?.report ?? null,
  };
}
