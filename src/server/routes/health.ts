import type { Engine } from "../../engine/engine.ts";
import type { Call, Handler, Reply } from "../call.ts";

/** How long the store may take to show that it is there. */
const STORE_ANSWERS_WITHIN_MS = 1_000;

/** Why a workspace cannot be served, or null. */
async function reasonOf(engine: Engine): Promise<string | null> {
  const { last_error } = engine.status();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    const reason = `The store did not answer within ${STORE_ANSWERS_WITHIN_MS} ms.`;
    timer = setTimeout(() => resolve(reason), STORE_ANSWERS_WITHIN_MS);
  });
  const read = engine
    .read((reader) => reader.head())
    .then(({ damage }) => (damage === null ? last_error : `Read only. ${damage.reason}`))
    .catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
  const reason = await Promise.race([read, late]);
  clearTimeout(timer);
  return reason;
}

async function readyz({ server }: Call<"readyz">): Promise<Reply> {
  const found = await Promise.all(server.engines.map(reasonOf));
  const reasons = found.filter((reason) => reason !== null);
  if (server.stopping.aborted) reasons.push("The server is stopping.");
  const isReady = reasons.length === 0;
  const { description, unsafe } = server.store;
  // Who has no token may learn that something is wrong, not what and where.
  const isOpen = !server.tokensRequired;
  const answer = {
    status: isReady ? "ok" : "unavailable",
    version: server.version,
    store: isOpen ? description : description.replace(/ \(.*\)$/, ""),
    unsafe,
    reasons: isOpen ? reasons : reasons.map(() => "A workspace cannot be served; see the log."),
    uptime_seconds: Math.floor(server.uptimeMs() / 1_000),
  };
  return { answer, pos: null, status: isReady ? 200 : 503 };
}

/** What the server says about itself. */
export const HEALTH_HANDLERS: { livez: Handler<"livez">; readyz: Handler<"readyz"> } = {
  livez: () => Promise.resolve({ answer: { status: "ok" }, pos: null }),
  readyz,
};
