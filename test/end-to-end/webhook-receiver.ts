import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { verifyWebhook } from "../../src/server/webhooks/signing.ts";

/** One request that a receiver got. */
export type Received = {
  headers: IncomingHttpHeaders;
  text: string;
  body: { type: string; timestamp: string; data: Record<string, unknown> };
};

/** A real receiver of webhooks on this machine. */
export interface WebhookReceiver {
  readonly url: string;
  /** `host:port`, as an operator allows it. */
  readonly host: string;
  readonly received: Received[];
  /** How many requests were being answered at once, at most. */
  readonly mostAtOnce: () => number;
  /** What the next requests are answered with; `hang` never answers. */
  answer: number | "hang" | ((received: Received, response: ServerResponse) => void);
  /** Whether a request was signed with one of the secrets at that time. */
  isSigned(received: Received, secrets: readonly string[], nowMs: number): boolean;
  /** Resolves when there are so many requests. */
  got(count: number): Promise<Received[]>;
  close(): Promise<void>;
}

/** Starts a receiver. */
export async function startReceiver(): Promise<WebhookReceiver> {
  const received: Received[] = [];
  const waiting: (() => void)[] = [];
  let atOnce = 0;
  let most = 0;
  const server = createServer((request, response) => {
    atOnce += 1;
    most = Math.max(most, atOnce);
    response.on("close", () => (atOnce -= 1));
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      const { headers } = request;
      const got = { headers, text, body: JSON.parse(text) as Received["body"] };
      received.push(got);
      for (const look of waiting.splice(0)) look();
      const { answer } = receiver;
      if (typeof answer === "function") answer(got, response);
      else if (answer !== "hang") response.writeHead(answer).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const host = `127.0.0.1:${port}`;
  const receiver: WebhookReceiver = {
    url: `http://${host}/hook`,
    host,
    received,
    mostAtOnce: () => most,
    answer: 204,
    isSigned: ({ headers, text }, secrets, nowMs) =>
      verifyWebhook({
        headers: (name) => headers[name]?.toString(),
        body: new TextEncoder().encode(text),
        secrets,
        nowMs,
      }).ok,
    async got(count) {
      while (received.length < count) {
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
      return received;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return receiver;
}
