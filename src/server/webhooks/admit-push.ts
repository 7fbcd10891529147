import { createHash, timingSafeEqual, hash } from "node:crypto";
import { PawlError } from "../../kernel/errors.ts";
import { epochMsOf } from "../../kernel/instant.ts";
import type { SensorRow } from "../../work/sensor/rows.ts";
import type { Engine } from "../../engine/engine.ts";
import { type Caller, isToken } from "../http/authenticate.ts";
import { findEntityRow } from "../entities.ts";
import type { ServerContext } from "../start-server.ts";
import { liveSecrets, newWebhookSecret, verifyWebhook } from "./signing.ts";
import { type MessagesReceived, receiveMessages } from "../../work/sensor/commands.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import { type Call, type Reply, submitted } from "../http/call.ts";
import { parsePushRequest } from "./push-message.ts";

/** What a request to push messages proves itself with. */
export type PushProof = {
  /** The id of the sensor, or its name. */
  sensor: string;
  /** The secret itself, from senders that cannot sign. */
  key: string | undefined;
  bytes: Uint8Array;
  header(name: string): string | undefined;
};

/** Who pushes, and into which workspace. */
export type AdmittedPush = { caller: Caller; engine: Engine };

/**
 * Finds out who pushes messages without a token: whoever knows the sensor's secret. One without a
 * secret takes what the server takes without a token. Throws `UNAUTHORIZED`, in the same words
 * whether or not there is such a sensor.
 */
export async function admitPush(server: ServerContext, proof: PushProof): Promise<AdmittedPush> {
  const found = await findSensor(server, proof.sensor);
  const now = await server.store.now();
  const secrets =
    found === null
      ? []
      : await liveSecrets(
          server.store,
          { ws: found.engine.workspace.ws, kind: "sensor", id: found.row.sensor_id },
          now,
        );
  if (secrets.length === 0 && !server.tokensRequired) {
    const caller = await server.authenticate(undefined);
    // Without a secret nothing proves a right to another workspace than that of the local caller.
    return { caller, engine: engineOfCaller(server, caller) };
  }
  // Where there is no secret the proof fails against one that nobody has: nothing is told apart.
  const principal = provedBy(proof, secrets.length === 0 ? [newWebhookSecret()] : secrets, now);
  if (found === null) throw unproved("");
  const { engine } = found;
  const actor = { principal, token_id: null };
  return { caller: { actor, ws: engine.workspace.ws, verbs: ["push"] }, engine };
}

/**
 * Who pushes messages with a token, which needs no look at what they are; null without one. Throws
 * `UNAUTHORIZED`, and `FORBIDDEN` for a token that may not push.
 */
export async function admitPushByToken(
  server: ServerContext,
  authorization: string | undefined,
): Promise<AdmittedPush | null> {
  // Other things in this header, such as the tokens that Pub/Sub sends, are not for us.
  if (authorization === undefined || !isToken(authorization)) return null;
  const caller = await server.authenticate(authorization);
  if (!caller.verbs.includes("push") && !caller.verbs.includes("write")) {
    throw new PawlError(
      "FORBIDDEN",
      `This token may ${caller.verbs.join(", ")}; pushing messages needs the right to push or to ` +
        "write. `pawl token create --verbs push` makes one that may.",
      { details: { verbs: caller.verbs, verb: "push" } },
    );
  }
  return { caller, engine: engineOfCaller(server, caller) };
}

function engineOfCaller(server: ServerContext, { ws }: Caller): Engine {
  const engine = server.engineOf.get(ws);
  if (engine !== undefined) return engine;
  throw new PawlError(
    "FORBIDDEN",
    "This server does not serve the workspace of the token. Ask the server that does.",
  );
}

/** Ids are unique over all workspaces and come first; a name means the one of the first. */
async function findSensor(
  server: ServerContext,
  idOrName: string,
): Promise<{ engine: Engine; row: SensorRow } | null> {
  let named: { engine: Engine; row: SensorRow } | null = null;
  for (const [index, engine] of server.engines.entries()) {
    const row = await engine.read((reader) => findEntityRow(reader, "sensor", idOrName));
    if (row === null || row.state === "DELETED") continue;
    if (row.sensor_id === idOrName) return { engine, row };
    if (index === 0) named = { engine, row };
  }
  return named;
}

/** The principal that the proof stands for; throws when it proves nothing. */
function provedBy(proof: PushProof, secrets: readonly string[], now: string): string {
  const { bytes, key } = proof;
  const header = (name: string) => proof.header(name);
  if (header("webhook-signature") !== undefined) {
    const nowMs = epochMsOf(now);
    const verdict = verifyWebhook({ headers: header, body: bytes, secrets, nowMs });
    if (verdict.ok) return "signed-push";
    throw unproved(`${verdict.reason} `);
  }
  // A plus sign means a space in a query, but a secret may have one and never has a space.
  if (key !== undefined && isOneOf(key.replaceAll(" ", "+"), secrets)) return "keyed-push";
  throw unproved(key === undefined ? "" : "The key in the URL is not the sensor's secret. ");
}

function isOneOf(key: string, secrets: readonly string[]): boolean {
  let isFound = false;
  // As hashes they are all of one length, and comparing them tells nothing of where they differ.
  for (const secret of secrets) {
    if (timingSafeEqual(sha256(key), sha256(secret))) isFound = true;
  }
  return isFound;
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function unproved(reason: string): PawlError {
  return new PawlError(
    "UNAUTHORIZED",
    `${reason}Messages to this sensor must be signed with its secret (Standard Webhooks), carry ` +
      "it as ?key=… in the URL, or come with a token that may push.",
  );
}

/** Keeps the messages that a request brings, and answers once they are durable. */
export async function pushedMessages(call: Call<"pushMessages">): Promise<Reply> {
  const parsed = parsePushRequest({
    headers: (name) => call.header(name),
    headerNames: call.headerNames(),
    body: call.bytes,
  });
  const messages = parsed.map(({ digest_input, ...message }) => ({
    ...message,
    payload_digest: hash("sha256", canonicalJson(digest_input)),
  }));
  const message_ids = messages.map(({ message_id }) => message_id);
  let received = 0;
  const describe = ({ sensor_id, results }: MessagesReceived) => {
    received = results.filter((result) => result === "received").length;
    const duplicates = results.length - received;
    const message = sentenceOf(received, duplicates);
    return { message, sensor_id, received, duplicates, message_ids };
  };
  const sensor = call.params.sensor_id;
  const reply = await submitted(call, receiveMessages({ sensor, messages }), describe);
  return { ...reply, status: received > 0 ? 202 : 200 };
}

function sentenceOf(received: number, duplicates: number): string {
  const fresh = received === 1 ? "1 message was received" : `${received} messages were received`;
  if (duplicates === 0) return `${fresh}.`;
  const known = duplicates === 1 ? "1 was known" : `${duplicates} were known`;
  return received === 0 ? `Nothing is new: ${known} already.` : `${fresh}, ${known} already.`;
}
