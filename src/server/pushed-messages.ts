import { hash } from "node:crypto";
import { type MessagesReceived, receiveMessages } from "../controllers/receive-message.ts";
import { canonicalJson } from "../core/canonical.ts";
import { type Call, type Reply, submitted } from "./call.ts";
import { parsePushRequest } from "./push-message.ts";

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
