import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { SMTPServer } from "smtp-server";
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

/** One e-mail that a mail server took, as a mail program shows it. */
export type ReceivedEmail = {
  envelope: { from: string; to: string[] };
  /** By names in small letters, each as often as it stands there. */
  headers: ReadonlyMap<string, readonly string[]>;
  subject: string;
  text: string;
  html: string;
  isEncrypted: boolean;
  user: string | undefined;
};

/** A real SMTP server on this machine. */
export interface MailServer {
  readonly port: number;
  readonly received: ReceivedEmail[];
  /** Recipients that were asked for, taken or not. */
  readonly asked: string[];
  /** What a recipient is answered with, where it is not taken: a code, or nothing ever. */
  refuse: (address: string) => number | "hang" | null;
  /** What a whole message is answered with, where it is not taken. */
  refuseMessage: number | null;
  /** Resolves when there are so many messages. */
  got(count: number): Promise<ReceivedEmail[]>;
  close(): Promise<void>;
}

/** A certificate for this machine, which nobody trusts unless told to. */
export const LOCAL_CERTIFICATE = fileURLToPath(new URL("localhost.pem", import.meta.url));

/** Starts a mail server: in plain text, with STARTTLS, or with TLS from the first byte. */
export async function startMailServer(
  options: { tls?: "starttls" | "from_start"; login?: { user: string; pass: string } } = {},
): Promise<MailServer> {
  const { tls, login } = options;
  const pem = readFileSync(LOCAL_CERTIFICATE, "utf8");
  const waiting: (() => void)[] = [];
  const server = new SMTPServer({
    secure: tls === "from_start",
    key: pem,
    cert: pem,
    banner: "ready",
    disabledCommands: [
      ...(tls === undefined ? ["STARTTLS"] : []),
      ...(login === undefined ? ["AUTH"] : []),
    ],
    authOptional: login === undefined,
    allowInsecureAuth: true,
    disableReverseLookup: true,
    onAuth({ username, password }, _session, done) {
      if (username === login?.user && password === login?.pass) done(null, { user: username });
      else done(refusal(535, `5.7.8 ${username} with ${password} is not known`));
    },
    onRcptTo({ address }, _session, done) {
      mail.asked.push(address);
      const code = mail.refuse(address);
      if (code === "hang") return;
      if (code === null) done();
      else done(refusal(code, `5.1.1 <${address}> is not here at 127.0.0.1`));
    },
    onData(stream, session, done) {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      stream.on("end", () => {
        if (mail.refuseMessage !== null) return done(refusal(mail.refuseMessage, "not now"));
        const { mailFrom, rcptTo } = session.envelope;
        const from = mailFrom === false ? "" : mailFrom.address;
        mail.received.push({
          envelope: { from, to: rcptTo.map(({ address }) => address) },
          ...readEmail(Buffer.concat(parts).toString("latin1")),
          isEncrypted: session.secure,
          user: session.user?.toString(),
        });
        done();
        for (const look of waiting.splice(0)) look();
      });
    },
  });
  // Clients that trust no certificate hang up.
  server.on("error", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const mail: MailServer = {
    port: (server.server.address() as AddressInfo).port,
    received: [],
    asked: [],
    refuse: () => null,
    refuseMessage: null,
    async got(count) {
      while (mail.received.length < count) {
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
      return mail.received;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const connection of server.connections) connection.close();
      }),
  };
  return mail;
}

function refusal(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}

type ReadEmail = Pick<ReceivedEmail, "headers" | "subject" | "text" | "html">;

/** Reads a message as RFC 5322, 2045 and 2047 have it, as far as mail programs show it. */
function readEmail(raw: string): ReadEmail {
  const { headers, body } = readPart(raw);
  const boundary = /boundary="([^"]+)"/.exec(headers.get("content-type")?.[0] ?? "")?.[1];
  const inner = boundary === undefined ? [] : body.split(`--${boundary}`).slice(1, -1);
  const parts = (inner.length === 0 ? [raw] : inner).map((part) => readPart(part.trimStart()));
  const textOf = (type: string): string => {
    const part = parts.find((each) => each.headers.get("content-type")?.[0]?.startsWith(type));
    return part === undefined ? "" : decodedBody(part);
  };
  const subject = (headers.get("subject")?.[0] ?? "")
    .replaceAll(/\?=\s+=\?/g, "?==?")
    .replaceAll(/=\?utf-8\?([bq])\?([^?]*)\?=/gi, (_, kind: string, text: string) =>
      kind.toLowerCase() === "b"
        ? Buffer.from(text, "base64").toString()
        : quotedText(text.replaceAll("_", " ")),
    );
  return { headers, subject, text: textOf("text/plain"), html: textOf("text/html") };
}

function readPart(raw: string): { headers: Map<string, string[]>; body: string } {
  const end = raw.indexOf("\r\n\r\n");
  const headers = new Map<string, string[]>();
  for (const line of raw
    .slice(0, end)
    .replaceAll(/\r\n[ \t]+/g, " ")
    .split("\r\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    headers.set(name, [...(headers.get(name) ?? []), line.slice(colon + 1).trim()]);
  }
  return { headers, body: raw.slice(end + 4) };
}

function decodedBody({ headers, body }: ReturnType<typeof readPart>): string {
  const coding = headers.get("content-transfer-encoding")?.[0] ?? "7bit";
  const text =
    coding === "base64"
      ? Buffer.from(body, "base64").toString()
      : coding === "quoted-printable"
        ? quotedText(body.replaceAll("=\r\n", ""))
        : body;
  return text.replaceAll("\r\n", "\n").trim();
}

function quotedText(text: string): string {
  const bytes = text.replaceAll(/=([0-9A-F]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString();
}
