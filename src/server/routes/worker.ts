import type { Call, Handler, Reply } from "../call.ts";

/** Takes tasks; a claim that may wait counts against the number of waiting ones. */
async function claim(call: Call<"claim">): Promise<Reply> {
  const { engine, body, server } = call;
  const leave =
    body.wait_ms === 0
      ? () => {}
      : server.admission.enter(
          `claims:${engine.workspace.ws}`,
          server.limits.waitingClaims,
          "claims waiting for work in this workspace",
          429,
        );
  try {
    const answer = await engine.claim(body, call.signal());
    const tasks = answer.groups.reduce((sum, group) => sum + group.tasks.length, 0);
    server.metricsOf.get(engine)?.claimedTasks.inc(tasks);
    return { answer, pos: null };
  } finally {
    leave();
  }
}

/** What workers say to the server. */
export const WORKER_HANDLERS: {
  claim: Handler<"claim">;
  heartbeat: Handler<"heartbeat">;
  checkpoint: Handler<"checkpoint">;
  log: Handler<"log">;
  report: Handler<"report">;
} = {
  claim,
  heartbeat: async ({ engine, body }) => ({ answer: await engine.heartbeat(body), pos: null }),
  checkpoint: async ({ engine, body }) => ({ answer: await engine.checkpoint(body), pos: null }),
  log: async ({ engine, body }) => ({ answer: await engine.log(body), pos: null }),
  report: async ({ engine, body }) => ({ answer: await engine.report(body), pos: null }),
};
