import type { Engine } from "../../engine/engine.ts";
import type { Call, Handler, Reply } from "../call.ts";

/** How long the store may take to show that it is there. */
const STORE_ANSWERS_WITHIN_MS = 1_000;

/** Anybody may ask, so what exactly is wrong, and where on this machine, is for the log. */
const SEE_LOG = "A workspace cannot be served; the log of the server has the reason.";

/** Why a workspace cannot be served, or null; of its events only where no token is needed to look. */
async function reasonOf(engine: Engine, isOpen: boolean): Promise<string | null> {
  const { last_error } = engine.status();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    const reason = `The store did not answer within ${STORE_ANSWERS_WITHIN_MS} ms.`;
    timer = setTimeout(() => resolve(reason), STORE_ANSWERS_WITHIN_MS);
  });
  const read = engine
    .read((reader) => reader.head())
    .then(({ damage }) => {
      if (damage === null) return last_error === null ? null : SEE_LOG;
      return isOpen ? `Read only. ${damage.reason}` : "A workspace is read only; see the log.";
    })
    .catch(() => SEE_LOG);
  const reason = await Promise.race([read, late]);
  clearTimeout(timer);
  return reason;
}

async function readyz({ server }: Call<"readyz">): Promise<Reply> {
  const found = await Promise.all(
    server.engines.map((engine) => reasonOf(engine, !server.tokensRequired)),
  );
  const reasons = found.filter((reason) => reason !== null);
  if (server.stopping.aborted) reasons.push("The server is stopping.");
  const isReady = reasons.length === 0;
  const { description, unsafe } = server.store;
  const answer = {
    status: isReady ? "ok" : "unavailable",
    version: server.version,
    // Without the path or the database, which stand in brackets.
    store: description.replace(/ \(.*\)$/, ""),
    unsafe,
    reasons,
    uptime_seconds: Math.floor(server.uptimeMs() / 1_000),
  };
  return { answer, pos: null, status: isReady ? 200 : 503 };
}

/** What the server says about itself. */
export const HEALTH_HANDLERS: { livez: Handler<"livez">; readyz: Handler<"readyz"> } = {
  livez: () => Promise.resolve({ answer: { status: "ok" }, pos: null }),
  readyz,
};
