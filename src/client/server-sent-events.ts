/** One message of a stream of server-sent events. */
export type ServerSentEvent = { id: string | null; event: string; data: string };

/**
 * The messages of a stream in order; comments, which only keep it open, are left out. Holds the stream
 * from the start: Node ends the body of an answer that nobody reads or refers to any more.
 */
export function serverSentEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<ServerSentEvent> {
  return messagesOf(body.values());
}

async function* messagesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    let end = text.indexOf("\n\n");
    while (end >= 0) {
      const message = parseMessage(text.slice(0, end));
      text = text.slice(end + 2);
      if (message !== null) yield message;
      end = text.indexOf("\n\n");
    }
  }
}

function parseMessage(block: string): ServerSentEvent | null {
  let id: string | null = null;
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "id") id = value;
    else if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
  return data.length === 0 ? null : { id, event, data: data.join("\n") };
}
