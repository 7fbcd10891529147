import { present } from "../../../kernel/assert.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { ClaimedSplit, SplitReport } from "../../../work/shard/step-protocol.ts";
import { settleOwnership } from "./settle-ownership.ts";
import { openSplitStream, type SplitWork, type Stream } from "./work.ts";

/**
 * Changes the schema of the owner; the stream takes it over in its place. The statement is marked
 * with the step, so that a step that begins again finds it in the log and runs it once.
 */
export async function runDdlStep(work: SplitWork): Promise<SplitReport> {
  const { step, guard, host } = work;
  if (host.allowsDdl !== true) {
    throw new PawlError(
      "DDL_NOT_ALLOWED",
      "This worker changes no schemas. Say `allowDdl: true` in shards() of its project, or run the " +
        "statement on each shard yourself when the split has ended.",
      { details: { split_id: step.split_id } },
    );
  }
  await settleOwnership(work);
  const isThere = step.routing_version_cutover !== null;
  const stream = await openSplitStream(work, isThere ? "back" : "forward");
  const sql = marked(step);
  if (!(await isLogged(work, stream, sql))) {
    await stream.from.runDdl(guard, sql, step.tables);
  }
  return {};
}

/** After the first word: before it the statement would not begin as it must, and behind it could stay in the schema. */
function marked({ split_id, n, ddl }: ClaimedSplit): string {
  const mark = ` /* pawl ${split_id}:${n} */`;
  return present(ddl, "a step has a statement").replace(/^\s*\w+/, (word) => word + mark);
}

async function isLogged({ guard }: SplitWork, stream: Stream, sql: string): Promise<boolean> {
  const { from, plan, state, limits } = stream;
  const { tables, scope } = plan;
  // Repeated, it answers where the log begins.
  const position = state?.position ?? (await from.armCapture(guard, tables));
  const to = await from.position();
  let after_id = state?.reaching?.after_id ?? null;
  for (;;) {
    const asked = { tables, scope, from: position, to, after_id, cursor: null, chunk: null };
    const answer = await from.read({ ...asked, changesMax: limits.changesMax });
    if (answer.changes.some(({ ddl }) => ddl?.sql === sql)) return true;
    if (answer.complete) return false;
    after_id = answer.through_id;
  }
}
