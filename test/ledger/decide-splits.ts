import { changeRouting } from "../../src/work/routing/commands.ts";
import {
  changeSchema,
  completeSplit,
  planSplit,
  requestCutover,
  resumeSplit,
  rollbackSplit,
  runBackfill,
  startDualWrite,
} from "../../src/work/split/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import type { ClaimedGroup, ReportedResult, TaskRef } from "../../src/work/run/protocol.ts";
import type { Spec } from "../../src/work/definition/published-spec.ts";
import type { SplitRow } from "../../src/work/split/rows.ts";
import { ShardsSpec } from "../../src/work/shard/spec.ts";
import type {
  ClaimedSplit,
  SplitReport,
  StepAnswer,
  StepWord,
} from "../../src/work/shard/step-protocol.ts";
import type { Deciding } from "./decide-automation.ts";

/** The shards of the project. */
export const SHARDS_SPEC = ShardsSpec.parse({
  kind: "shards",
  name: "shards",
  shards: ["east", "north", "west"].map((shard) => ({ shard, engine: "sqlite" })),
  tables: [
    { table: "customers", shard_by: "region" },
    { table: "orders", shard_by: "region" },
  ],
});

const error = { class: "user", message: "no luck" };
const alike = { check: "customers alike", ok: true, note: null };
const verification = { ok: true, ranges: 3, rows: 20, finished: true, note: null };

/** Tenants whose cutover can often not be had, and whose first copy fails for good. */
const BUSY = "ü";
const UNLUCKY = "lost";

/** How a worker does a step of a split: mostly well, now and then not at the first time. */
export async function splitResult(
  { step }: ClaimedGroup,
  ref: TaskRef,
  choose: () => number,
  say: (word: StepWord) => Promise<StepAnswer>,
): Promise<ReportedResult | null> {
  if (step?.work !== "split") return null;
  const report = reportOf(step);
  const spoken = { ...ref, worker_id: "w", report: { work: "split" as const, ...report } };
  if (choose() < 0.15) return { ...ref, outcome: "FAILED", error };
  const isOpen = step.step === "cutover" && step.routing_version_cutover === null;
  if (isOpen && step.tenants.includes(BUSY) && choose() < 0.6) {
    return { ...ref, outcome: "FAILED", error, final: true };
  }
  if (step.step === "copy" && step.tenants.includes(UNLUCKY) && step.n < 5) {
    return {
      ...ref,
      outcome: "FAILED",
      error,
      final: true,
      step: { work: "split", rows_copied: 1 },
    };
  }
  if (step.step === "tail") await say({ ...spoken, record: "caught_up" });
  if (step.step === "cutover" || step.step === "cutback") {
    await say({ ...spoken, record: "commit" });
    // The one who goes on finds the commit record.
    if (choose() < 0.3) return { ...ref, outcome: "FAILED", error };
  }
  await say({ ...spoken, record: null });
  return { ...ref, outcome: "SUCCEEDED", step: { work: "split", ...report } };
}

function reportOf({ step, tables, n }: ClaimedSplit): SplitReport {
  switch (step) {
    case "check":
      return { checks: [alike, { check: "orders alike", ok: n > 1, note: "a column is missing" }] };
    case "copy":
      return {
        rows_copied: 20,
        tables: tables.map(({ table }) => ({ table, rows: 10, cursor: ["'k'"], done: true })),
        tenant_rows: { eu: 20 },
      };
    case "tail":
    case "reverse":
      return { position: "7", lag_events: 0, lag_ms: 4, last_event_id: "7", verification };
    case "cutover":
    case "cutback":
      return { checks: [alike], write_pause_ms: 3.25, verification };
    case "remove":
    case "discard":
      return { rows_removed: 20 };
    default:
      return {};
  }
}

/** The newest split. */
const newest: Decide<SplitRow | null> = (rows) => ({
  events: [],
  result: rows.splits.find([], [{ cell: "created_pos", descending: true }], 1)[0] ?? null,
});

/** Has splits be planned, copied, cut over, completed and taken back in every way there is. */
export async function decideSplits(specs: readonly Spec[], deciding: Deciding): Promise<void> {
  const { submit, pass } = deciding;
  await submit(publishDefinitions({ origin: "code", specs: [...specs, SHARDS_SPEC], prune: true }));
  await submit(changeRouting({ expected_version: 0, default_shard: "east", routes: [] }));
  const routes = [
    { tenant: "us", shard: "north" },
    { tenant: UNLUCKY, shard: "north" },
  ];
  await submit(changeRouting({ routes, reason: "they are there" }));

  const eu = await submit(
    planSplit({ description: "room", source: "east", target: "west", tenants: ["eu", BUSY] }),
  );
  await toTail(deciding, eu.split_id);
  await submit(changeSchema({ split: eu.split_id, ddl: "alter table orders add note text" }));
  await deciding.work(3);
  await submit(requestCutover({ split: eu.split_id, reason: "now" }));
  await deciding.work(3);
  await untilIs(deciding, "reversible", () => submit(requestCutover({ split: eu.split_id })));
  await deciding.work(3);
  // Not before the cutover has ended, which commits some time before.
  await untilIs(deciding, "completed", () => submit(completeSplit({ split: eu.split_id })));
  await pass(86_400_000);
  await deciding.work(10);

  await decideWaysBack(deciding);
}

async function decideWaysBack(deciding: Deciding): Promise<void> {
  const { submit, work, pass } = deciding;
  const us = { source: "north", target: "east", tenants: ["us"] };
  const planned = await submit(planSplit(us));
  await submit(rollbackSplit({ split: planned.split_id, reason: "not today" }));
  await work(4);

  const auto = await submit(planSplit({ ...us, auto_cutover: true, grace_ms: 0 }));
  await toTail(deciding, auto.split_id);
  await untilIs(deciding, "reversible", () => pass(70_000));
  await work(3);
  await submit(rollbackSplit({ split: auto.split_id }));
  await untilIs(deciding, "rolled_back");

  const lost = await submit(planSplit({ ...us, tenants: [UNLUCKY, "us"] }));
  await toTail(deciding, lost.split_id);
  await submit(rollbackSplit({ split: lost.split_id }));
  await untilIs(deciding, "rolled_back");
  // The same plan once more, and to the other end.
  await toTail(deciding, lost.split_id);
  await untilIs(deciding, "reversible", () => submit(requestCutover({ split: lost.split_id })));
  await untilIs(deciding, "completed", () => submit(completeSplit({ split: lost.split_id })));
}

/** Takes a split to where its tail is caught up. */
async function toTail(deciding: Deciding, split: string): Promise<void> {
  const { submit } = deciding;
  const steps = [startDualWrite({ split }), runBackfill({ split })];
  for (const command of steps) {
    await deciding.work(4);
    const row = await submit(newest);
    if (row?.run_pos === null && row.step_state !== null) await submit(resumeSplit({ split }));
    await deciding.work(4);
    await submit(command);
  }
  await deciding.work(4);
  const row = await submit(newest);
  if (row?.step_state === "FAILED") await submit(resumeSplit({ split }));
  const { auto_cutover } = row ?? { auto_cutover: 0 };
  if (auto_cutover === 0) await untilIs(deciding, "cutover_pending");
}

/** Works until the newest split is in a phase; what is to be done in between may be given. */
async function untilIs(
  { submit, work }: Deciding,
  phase: SplitRow["phase"],
  between: () => Promise<unknown> = async () => undefined,
): Promise<void> {
  for (let turn = 0; turn < 40; turn++) {
    const row = await submit(newest);
    if (row?.phase === phase) return;
    await between().catch(() => undefined);
    await work(2);
  }
  throw new Error(`The split does not get to ${phase}.`);
}
