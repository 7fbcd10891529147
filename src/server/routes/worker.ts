import type { Engine } from "../../engine/engine.ts";
import type { ClaimAnswer } from "../../work/run/protocol.ts";
import { upstreamOfTask } from "../partitions/task-upstream.ts";
import { lastingPlaces, workPlaces } from "../http/admission.ts";
import type { Call, Handlers, Reply } from "../http/call.ts";

/** A claim counts among the waiting ones, or among what workers say; answers how to leave again. */
function enterClaim(
  { server, caller }: Pick<Call<"claim">, "server" | "caller">,
  waitMs: number,
): () => void {
  const isWork = waitMs === 0;
  return server.admission.enterAll(
    isWork ? workPlaces(server, caller, "workerRequests") : lastingPlaces(server, caller, "claims"),
  );
}

/** A claim that waited for nothing tells so only to a token that is still good. */
async function checkWaited({
  body,
  authenticateAgain,
}: Pick<Call<"claim">, "authenticateAgain"> & { body: { wait_ms: number } }): Promise<void> {
  if (body.wait_ms > 0) await authenticateAgain();
}

/** Takes tasks. */
async function claim(call: Call<"claim">): Promise<Reply> {
  const { engine, body, server } = call;
  const leave = enterClaim(call, body.wait_ms);
  try {
    const answer = await engine.claim(body, call.signal(), call.caller.actor);
    const tasks = tasksIn(answer);
    server.metricsOf.get(engine)?.claimedTasks.inc(tasks);
    if (tasks === 0) await checkWaited(call);
    return replyOf(engine, answer);
  } finally {
    leave();
  }
}

/** How many tasks a claim got. */
function tasksIn({ groups }: ClaimAnswer): number {
  return groups.reduce((sum, group) => sum + group.tasks.length, 0);
}

/** Records how tasks ended, and takes others. */
async function report({ server, engine, body, caller }: Call<"report">): Promise<Reply> {
  const answer = await engine.report(body, caller.actor);
  const { claimed } = answer;
  if (claimed !== undefined) server.metricsOf.get(engine)?.claimedTasks.inc(tasksIn(claimed));
  return replyOf(engine, answer);
}

/** Tells the attempt that holds a task what the task is made from. */
async function upstream({ engine, body, caller }: Call<"upstream">): Promise<Reply> {
  const { result: page, pos } = await engine.evaluate((rows, context) => {
    return { events: [], result: upstreamOfTask(rows, body, context) };
  }, caller.actor);
  return { answer: { ...page, pos }, pos };
}

/** Takes evaluations of sensors. */
async function claimProbes(call: Call<"claimProbes">): Promise<Reply> {
  const { engine, body } = call;
  const leave = enterClaim(call, body.wait_ms);
  try {
    const answer = await engine.claimProbes(body, call.signal(), call.caller.actor);
    if (answer.probes.length === 0) await checkWaited(call);
    return replyOf(engine, answer);
  } finally {
    leave();
  }
}

/** Takes heads to look up. */
async function claimHeads(call: Call<"claimHeads">): Promise<Reply> {
  const { engine, body } = call;
  const leave = enterClaim(call, body.wait_ms);
  try {
    const answer = await engine.claimHeads(body, call.signal(), call.caller.actor);
    if (answer.heads.length === 0) await checkWaited(call);
    return replyOf(engine, answer);
  } finally {
    leave();
  }
}

function replyOf(engine: Engine, answer: unknown): Reply {
  return { answer, pos: engine.status().pos };
}

/** What workers say to the server. */
export const WORKER_HANDLERS = {
  claim,
  heartbeat: async ({ engine, body, caller }) =>
    replyOf(engine, await engine.heartbeat(body, caller.actor)),
  checkpoint: async ({ engine, body, caller }) =>
    replyOf(engine, await engine.checkpoint(body, caller.actor)),
  log: async ({ engine, body, caller }) => replyOf(engine, await engine.log(body, caller.actor)),
  report,
  upstream,
  claimProbes,
  reportProbes: async ({ engine, body, caller }) =>
    replyOf(engine, await engine.reportProbes(body, caller.actor)),
  claimHeads,
  reportHeads: async ({ engine, body, caller }) =>
    replyOf(engine, await engine.reportHeads(body, caller.actor)),
  exchangeSources: async ({ engine, body, caller }) =>
    replyOf(engine, await engine.exchangeSources(body, caller.actor)),
  sayStep: async ({ engine, body, caller }) =>
    replyOf(engine, await engine.sayStep(body, caller.actor)),
} satisfies Handlers;
