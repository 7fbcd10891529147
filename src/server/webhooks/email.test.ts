import { execFile } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import {
  LOCAL_CERTIFICATE,
  type MailServer,
  startMailServer,
} from "../../../test/end-to-end/webhook-receiver.ts";
import type { MailSettings } from "../../engine/config.ts";
import { type OutgoingEmail, sendEmail } from "./email.ts";

const servers: { close(): unknown }[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function mailServer(options?: Parameters<typeof startMailServer>[0]): Promise<MailServer> {
  const server = await startMailServer(options);
  servers.push(server);
  return server;
}

const settingsOf = (port: number, changes: Partial<MailSettings> = {}): MailSettings => ({
  host: "127.0.0.1",
  port,
  tls: "none",
  login: null,
  from: { name: "Pawl", address: "pawl@example.com" },
  ...changes,
});

const MESSAGE = { to: ["ops@example.com"], subject: "It failed", text: "No.", html: "<p>No.</p>" };

function send(settings: MailSettings | null, changes: Partial<OutgoingEmail> = {}) {
  const sentAt = new Date("2026-03-01T09:30:00.000Z");
  const fixed = { message: MESSAGE, id: "w1:7", acceptedBy: [], settings, sentAt };
  return sendEmail({ ...fixed, ...changes });
}

describe("sendEmail", () => {
  test("hands the message to the server, as text and HTML, with the same id on every attempt", async () => {
    const mail = await mailServer();
    const message = { ...MESSAGE, subject: "Größe → 3", text: "Zeile\n.\nEnde ✓" };
    expect(await send(settingsOf(mail.port), { message })).toEqual({
      status: 250,
      error: null,
      isFinal: false,
      acceptedBy: ["ops@example.com"],
    });
    await send(settingsOf(mail.port), { message });
    const [got, again] = await mail.got(2);
    expect(got).toMatchObject({
      envelope: { from: "pawl@example.com", to: ["ops@example.com"] },
      subject: "Größe → 3",
      text: "Zeile\n.\nEnde ✓",
      html: "<p>No.</p>",
      isEncrypted: false,
    });
    const header = (name: string) => got?.headers.get(name);
    expect(header("from")).toEqual(["Pawl <pawl@example.com>"]);
    expect(header("to")).toEqual(["ops@example.com"]);
    expect(header("message-id")).toEqual(["<pawl.w1.7@example.com>"]);
    expect(header("auto-submitted")).toEqual(["auto-generated"]);
    expect(header("date")).toEqual(["Sun, 01 Mar 2026 09:30:00 +0000"]);
    expect(again?.headers.get("message-id")).toEqual(header("message-id"));
  });

  test("writes no header that a subject or a name would smuggle in", async () => {
    const mail = await mailServer();
    const subject = "a\r\nBcc: evil@example.com\r\n\r\nbody";
    const from = { name: "Pawl\r\nBcc: evil@example.com", address: "pawl@example.com" };
    await send(settingsOf(mail.port, { from }), { message: { ...MESSAGE, subject } });
    const [got] = await mail.got(1);
    expect(got?.envelope.to).toEqual(["ops@example.com"]);
    expect(got?.headers.has("bcc")).toBe(false);
    expect(got?.text).toBe("No.");
  });

  test("leaves a server that took the message and says no goodbye", async () => {
    const ended = Promise.withResolvers<void>();
    const answers = { EHLO: "250 here", MAIL: "250 ok", RCPT: "250 ok", DATA: "354 go on" };
    const silent = createServer((socket) => {
      socket.write("220 here\r\n");
      socket.on("data", (bytes) => {
        const said = bytes.toString("latin1");
        const answer = Object.entries(answers).find(([command]) => said.startsWith(command))?.[1];
        if (answer !== undefined) socket.write(`${answer}\r\n`);
        else if (said.endsWith("\r\n.\r\n")) socket.write("250 taken\r\n");
      });
      socket.on("end", ended.resolve);
    });
    servers.push(silent);
    await once(silent.listen(0, "127.0.0.1"), "listening");
    const { port } = silent.address() as AddressInfo;
    expect(await send(settingsOf(port), { timeoutMs: 600_000 })).toMatchObject({ status: 250 });
    await ended.promise;
  });

  test("says that there is no SMTP server, and what to do", async () => {
    const attempt = await send(null);
    expect(attempt).toMatchObject({ status: null, isFinal: false });
    expect(attempt.error).toContain("smtp_url and email_from");
  });
});

describe("a refusal", () => {
  test.each([
    [450, false],
    [550, true],
  ])("of every recipient with %i is final: %s", async (code, isFinal) => {
    const mail = await mailServer();
    mail.refuse = () => code;
    const attempt = await send(settingsOf(mail.port));
    expect(attempt).toMatchObject({ status: code, isFinal, acceptedBy: [] });
    // Neither who it was for nor where the server is.
    expect(attempt.error).toBe(
      `The SMTP server refused every recipient: ${code} 5.1.1 <…@example.com> is not here at …`,
    );
  });

  test.each([
    [451, false],
    [554, true],
  ])("of the message with %i is final: %s", async (code, isFinal) => {
    const mail = await mailServer();
    mail.refuseMessage = code;
    expect(await send(settingsOf(mail.port))).toMatchObject({ status: code, isFinal });
  });

  test("of one recipient leaves the others with it, who are not sent it again", async () => {
    const mail = await mailServer();
    const message = { ...MESSAGE, to: ["a@example.com", "b@example.com", "c@example.com"] };
    mail.refuse = (address) => (address === "b@example.com" ? 451 : null);
    const first = await send(settingsOf(mail.port), { message });
    const acceptedBy = ["a@example.com", "c@example.com"];
    expect(first).toMatchObject({ status: 451, isFinal: false, acceptedBy });
    expect(first.error).toContain("refused 1 of 3 recipients");
    mail.refuse = () => null;
    const second = await send(settingsOf(mail.port), { message, acceptedBy });
    expect(second).toMatchObject({ status: 250, error: null });
    expect(mail.received.map(({ envelope }) => envelope.to)).toEqual([
      acceptedBy,
      ["b@example.com"],
    ]);
    mail.refuse = (address) => (address === "b@example.com" ? 550 : null);
    expect(await send(settingsOf(mail.port), { message })).toMatchObject({
      status: 550,
      isFinal: true,
    });
  });

  test("of the login is not final, and repeats neither user nor password", async () => {
    const login = { user: "pawl-user", pass: "s3cret-pass" };
    const mail = await mailServer({ login });
    expect(await send(settingsOf(mail.port, { login }))).toMatchObject({ status: 250 });
    expect(mail.received[0]?.user).toBe("pawl-user");
    const wrong = { ...login, pass: "wr0ng-pass" };
    const attempt = await send(settingsOf(mail.port, { login: wrong }));
    expect(attempt).toMatchObject({
      status: 535,
      isFinal: false,
      error: "The SMTP server did not take the login of smtp_url (535).",
    });
    const none = await send(settingsOf(mail.port));
    expect(none).toMatchObject({ status: 530, isFinal: false });
  });
});

describe("a server that is not there for us", () => {
  test("is tried again later, and its address is not told", async () => {
    const gone = await startMailServer();
    await gone.close();
    const attempt = await send(settingsOf(gone.port));
    expect(attempt).toMatchObject({
      status: null,
      isFinal: false,
      error: "The SMTP server of smtp_url could not be reached (ECONNREFUSED).",
    });
    const nowhere = await send(settingsOf(25, { host: "mail.invalid" }));
    expect(nowhere).toMatchObject({ status: null, isFinal: false });
    expect(nowhere.error).not.toContain("mail.invalid");
  });

  test("is left alone when it says nothing, or when sending is cancelled", async () => {
    const silent = createServer();
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    servers.push(silent);
    const { port } = silent.address() as AddressInfo;
    const closed = once(silent, "connection").then(([socket]) => once(socket.resume(), "close"));
    const attempt = await send(settingsOf(port), { timeoutMs: 200 });
    expect(attempt).toMatchObject({ status: null, isFinal: false });
    expect(attempt.error).toContain("ETIMEDOUT");
    await closed;
    const mail = await mailServer();
    mail.refuse = () => "hang";
    const stop = new AbortController();
    const sending = send(settingsOf(mail.port), { signal: stop.signal });
    await expect.poll(() => mail.asked).toHaveLength(1);
    stop.abort();
    expect((await sending).error).toContain("cancelled");
    expect(mail.received).toEqual([]);
  });
});

describe("encryption", () => {
  test("that cannot be trusted, or is not offered, keeps the message and the login here", async () => {
    const login = { user: "u", pass: "p" };
    for (const tls of ["starttls", "from_start"] as const) {
      const mail = await mailServer({ tls, login });
      const attempt = await send(settingsOf(mail.port, { tls, login }));
      expect(attempt, tls).toMatchObject({ status: null, isFinal: false });
      expect(attempt.error, tls).toContain("no TLS that can be trusted");
    }
    const plain = await mailServer({ login });
    const attempt = await send(settingsOf(plain.port, { tls: "starttls", login }));
    expect(attempt.error).toContain("no TLS that can be trusted");
    expect(plain.asked).toEqual([]);
  });

  test.each(["starttls", "from_start"] as const)("by %s is used", async (tls) => {
    const mail = await mailServer({ tls });
    const module = JSON.stringify(new URL("email.ts", import.meta.url).href);
    const settings = settingsOf(mail.port, { tls, host: "localhost" });
    const email = { message: MESSAGE, id: "w1:7", acceptedBy: [], settings };
    const script = `
      const { sendEmail } = await import(${module});
      console.log((await sendEmail({ ...${JSON.stringify(email)}, sentAt: new Date(0) })).status);`;
    // Node reads whom to trust when it starts.
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--input-type=module", "--eval", script],
      { env: { ...process.env, NODE_EXTRA_CA_CERTS: LOCAL_CERTIFICATE } },
    );
    expect(stdout.trim()).toBe("250");
    expect(mail.received).toMatchObject([{ isEncrypted: true, subject: "It failed" }]);
  });
});
