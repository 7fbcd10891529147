import type { StepCheck } from "../../core/step-protocol.ts";
import { schemaDifference } from "./schema-difference.ts";
import { fencesOf, presentEpochs } from "./settle-ownership.ts";
import type { Direction, SplitWork } from "./split-work.ts";
import { isVerified, type Stream } from "./stream.ts";
import { lagOf } from "./stream-report.ts";

/** What must hold before writes are stopped for a cutover. */
export async function cutoverChecks(
  { step }: SplitWork,
  stream: Stream,
  direction: Direction,
): Promise<StepCheck[]> {
  const { from, to, policies, state } = stream;
  const { tenants, lag_limit_ms } = step;
  const difference = schemaDifference(await from.describe(policies), await to.describe(policies));
  const lagMs = lagOf(stream);
  const epochs = presentEpochs(step);
  const shut = (await fencesOf(from, tenants)).filter(
    ({ state: is, epoch }, at) => is !== "open" || epoch !== epochs[at],
  );
  const ready = direction === "forward" ? "incoming" : "moved";
  const early = (await fencesOf(to, tenants)).filter(({ state: is }) => is !== ready);
  return [
    checked("schemas alike", difference),
    checked("copy complete", state?.phase === "tail" ? null : "the copy is not complete"),
    checked("copy verified", isVerified(stream) ? null : "not all of the copy was compared"),
    checked(
      "lag below the limit",
      lagMs !== null && lagMs < lag_limit_ms
        ? null
        : `the lag is ${lagMs ?? "not known"} ms, the limit ${lag_limit_ms} ms`,
    ),
    checked("owner takes writes", shut.length === 0 ? null : `${names(shut)} cannot be written`),
    checked("other side waits", early.length === 0 ? null : `${names(early)} should not be there`),
  ];
}

/** Characters of what a check has to say: a report takes no more. */
const NOTE_MAX = 2_000;

/** A check that has failed when there is something to say. */
export function checked(check: string, problem: string | null): StepCheck {
  const isLong = problem !== null && problem.length > NOTE_MAX;
  const note = isLong ? `${problem.slice(0, NOTE_MAX - 1)}…` : problem;
  return { check, ok: problem === null, note };
}

function names(fences: readonly { tenant: string }[]): string {
  return fences.map(({ tenant }) => tenant).join(", ");
}
