import { hash } from "node:crypto";
import type { NodemailerError } from "nodemailer";
import type SmtpConnection from "nodemailer/lib/smtp-connection";
import type { MailSettings } from "../../engine/config.ts";
import type { Attempt } from "../../engine/notifications.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { EmailMessage } from "../../work/webhook/message.ts";

/** Servers answer late on purpose to those they do not know; all in all it may take this long. */
const EMAIL_TIMEOUT_MS = 30_000;
/** How long a server that has taken a message may take to say goodbye. */
const GOODBYE_MS = 1_000;
/** How much of what a server says is kept with a delivery. */
const ANSWER_LENGTH_MAX = 300;
/** The server wants to know who we are: that is for the operator to mend, and no word on the message. */
const LOGIN_CODES: readonly number[] = [530, 534, 535, 538];

/** An e-mail to send. */
export type OutgoingEmail = {
  message: EmailMessage;
  /** The same on every attempt; the `Message-ID` is made of it. */
  id: string;
  /** Those who have it already, of an attempt that not all took. */
  acceptedBy: readonly string[];
  settings: MailSettings | null;
  sentAt: Date;
  signal?: AbortSignal;
  timeoutMs?: number;
};

/** Why no e-mail can be sent at all: WEBHOOK_REFUSED. Null when it can. */
export function emailSettingsFault(settings: MailSettings | null): PawlError | null {
  if (settings !== null) return null;
  return new PawlError(
    "WEBHOOK_REFUSED",
    "E-mail cannot be sent: the server has no SMTP server to send it with. Let the operator set " +
      "smtp_url and email_from.",
  );
}

/**
 * The `Message-ID` of a delivery, the same on every attempt, so that a mail server or a reader that has
 * seen it knows it again.
 */
export function emailMessageId(id: string, { from }: Pick<MailSettings, "from">): string {
  const local = /^[\w:-]{1,100}$/.test(id) ? id.replaceAll(":", ".") : hash("sha256", id);
  return `<pawl.${local}@${from.address.slice(from.address.lastIndexOf("@") + 1)}>`;
}

/**
 * Hands an e-mail to the operator's SMTP server, for those recipients who do not have it yet. Says how
 * that went, without the server's address, the login or a recipient's name; it never throws for what a
 * server does.
 */
export async function sendEmail(email: OutgoingEmail): Promise<Attempt> {
  const { message, settings, acceptedBy, timeoutMs = EMAIL_TIMEOUT_MS } = email;
  const fault = emailSettingsFault(settings);
  if (settings === null || fault !== null) {
    return {
      status: null,
      error: fault?.message ?? "",
      isFinal: false,
      acceptedBy: [...acceptedBy],
    };
  }
  const to = message.to.filter((address) => !acceptedBy.includes(address));
  const bytes = await composed(email, settings);
  const { default: Connection } = await import("nodemailer/lib/smtp-connection");
  const connection = new Connection({
    host: settings.host,
    port: settings.port,
    secure: settings.tls === "from_start",
    requireTLS: settings.tls === "starttls",
    ignoreTLS: settings.tls === "none",
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    maxResponseSize: 64 * 1024,
    allowInternalNetworkInterfaces: true,
  });
  // A stop or the time that is over ends the connection, whatever it is doing.
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(new Error("ETIMEDOUT")), timeoutMs);
  const cancel = (): void => over.reject(new Error("it was cancelled"));
  email.signal?.addEventListener("abort", cancel, { once: true });
  if (email.signal?.aborted === true) cancel();
  // Errors reach the callbacks too; one that comes when nobody waits any more is of no interest.
  connection.on("error", (error: NodemailerError) => over.reject(error));
  try {
    const sent = await Promise.race([over.promise, transaction(connection, settings, to, bytes)]);
    connection.quit();
    // One that says no goodbye would keep the connection, and with it the process.
    setTimeout(() => connection.close(), GOODBYE_MS).unref();
    return outcomeOf(sent, message.to.length, acceptedBy, settings);
  } catch (error) {
    connection.close();
    return refusalOf(error as NodemailerError, acceptedBy, settings);
  } finally {
    clearTimeout(timer);
    email.signal?.removeEventListener("abort", cancel);
  }
}

/** The bytes of the message, in which the library writes each header so that it stays one. */
async function composed(
  { message, id, sentAt }: OutgoingEmail,
  settings: MailSettings,
): Promise<Buffer> {
  const { default: MailComposer } = await import("nodemailer/lib/mail-composer");
  const mail = new MailComposer({
    from: settings.from,
    to: message.to.map((address) => ({ name: "", address })),
    subject: message.subject,
    text: message.text,
    html: message.html,
    messageId: emailMessageId(id, settings),
    date: sentAt,
    // Those who are away need not answer.
    headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return mail.compile().build();
}

type Sent = Pick<SmtpConnection.SentMessageInfo, "accepted" | "rejectedErrors">;

async function transaction(
  connection: SmtpConnection,
  { login, from }: MailSettings,
  to: readonly string[],
  bytes: Buffer,
): Promise<Sent> {
  await called<unknown>((done) => connection.connect((error) => done(error ?? null, null)));
  if (login !== null) {
    // A copy, as the library notes on it what it did.
    await called<unknown>((done) => connection.login({ ...login }, (error) => done(error, null)));
  }
  const envelope = { from: from.address, to: [...to] };
  return called<Sent>((done) => connection.send(envelope, bytes, done));
}

function called<Result>(
  call: (done: (error: NodemailerError | null, result: Result) => void) => void,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    call((error, result) => {
      if (error === null) resolve(result);
      else reject(error);
    });
  });
}

/** What the server took the message for; with some recipients refused, why and whether for good. */
function outcomeOf(
  { accepted, rejectedErrors = [] }: Sent,
  recipients: number,
  before: readonly string[],
  settings: MailSettings,
): Attempt {
  const acceptedBy = [...before, ...accepted];
  const [first] = rejectedErrors;
  if (first === undefined) return { status: 250, error: null, isFinal: false, acceptedBy };
  // One that may be taken later keeps the delivery alive, for those who have not got it.
  const waiting = rejectedErrors.find((error) => !isForGood(error));
  const shown = waiting ?? first;
  return {
    status: shown.responseCode ?? null,
    error:
      `The SMTP server refused ${rejectedErrors.length} of ${recipients} recipients: ` +
      answerText(shown, settings),
    isFinal: waiting === undefined,
    acceptedBy,
  };
}

function refusalOf(
  error: NodemailerError,
  acceptedBy: readonly string[],
  settings: MailSettings,
): Attempt {
  const { command = "", rejectedErrors = [] } = error;
  const attempt = { status: error.responseCode ?? null, acceptedBy: [...acceptedBy] };
  if (rejectedErrors.length > 0) {
    const waiting = rejectedErrors.find((each) => !isForGood(each));
    const shown = waiting ?? rejectedErrors[0] ?? error;
    const said = `The SMTP server refused every recipient: ${answerText(shown, settings)}`;
    const status = shown.responseCode ?? null;
    return { ...attempt, status, error: said, isFinal: waiting === undefined };
  }
  if (error.code === "EAUTH" || error.code === "ENOAUTH") {
    return { ...attempt, error: loginText(error), isFinal: false };
  }
  const isOfMessage = /^(?:MAIL FROM|RCPT TO|DATA)/.test(command);
  if (error.responseCode !== undefined && error.code !== "ETLS") {
    const what = isOfMessage ? "the message" : "the connection";
    const said = `The SMTP server refused ${what}: ${answerText(error, settings)}`;
    return { ...attempt, error: said, isFinal: isOfMessage && isForGood(error) };
  }
  if (error.code === "EMESSAGE") {
    return { ...attempt, error: "The SMTP server takes no message of this size.", isFinal: true };
  }
  return { ...attempt, error: connectionText(error), isFinal: false };
}

/** Whether the same message would be refused again. */
function isForGood({ permanent = false, responseCode = 0 }: NodemailerError): boolean {
  return permanent && !LOGIN_CODES.includes(responseCode);
}

/** Nothing of the answer, in which servers repeat who wanted to log in. */
function loginText({ responseCode }: NodemailerError): string {
  const code = responseCode === undefined ? "" : ` (${responseCode})`;
  return `The SMTP server did not take the login of smtp_url${code}.`;
}

function connectionText({ code = "", originalCode, message }: NodemailerError): string {
  const reason = originalCode ?? (code === "" ? message : code);
  if (code === "ETLS" || /CERT|TLS|SSL|ISSUER|SIGNATURE/.test(reason)) {
    return (
      `The SMTP server of smtp_url offers no TLS that can be trusted (${plain(reason)}). Correct ` +
      "smtp_url, let NODE_EXTRA_CA_CERTS name its authority, or write ?tls=none behind smtp:// " +
      "where the network can be trusted."
    );
  }
  if (code === "EDNS") return "The name of the SMTP server in smtp_url does not resolve.";
  return `The SMTP server of smtp_url could not be reached (${plain(reason)}).`;
}

/** Only what looks like the code of an error, never a sentence with an address in it. */
function plain(reason: string): string {
  return /^[A-Z_\d]{1,60}$/.test(reason) || reason === "it was cancelled" ? reason : "no answer";
}

/** What a server answered, for lists and logs: without names of people, our login and its own name. */
function answerText({ response = "" }: NodemailerError, { host, login }: MailSettings): string {
  const secrets = [host, login?.user ?? "", login?.pass ?? ""].filter((text) => text !== "");
  let text = response
    .slice(0, 10 * ANSWER_LENGTH_MAX)
    .replaceAll(/[\p{Cc}\s]+/gu, " ")
    .trim();
  for (const secret of secrets) text = text.replaceAll(secret, "…");
  text = text.replaceAll(/[^\s<>@:"]+@/g, "…@");
  return text.length > ANSWER_LENGTH_MAX ? `${text.slice(0, ANSWER_LENGTH_MAX)}…` : text;
}
