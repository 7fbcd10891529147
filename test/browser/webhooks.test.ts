import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, publish, startApi } from "../end-to-end/api-server.ts";
import { startReceiver, type WebhookReceiver } from "../end-to-end/webhook-receiver.ts";
import { act } from "./keyboard.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

let api: Api;
let receiver: WebhookReceiver;
let browser: TestBrowser;

beforeAll(async () => {
  receiver = await startReceiver();
  [api, browser] = await Promise.all([
    startApi({ webhookHosts: [receiver.host] }),
    TestBrowser.open(),
  ]);
  await publish(api.client);
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
  await receiver.close();
});

type Body = PartInput<"createWebhook", "body">;

function create(body: Pick<Body, "name" | "notifications"> & Partial<Body>) {
  return api.client.call("createWebhook", { body: { url: receiver.url, ...body } });
}

test("the list of webhooks says how messages are written, and sends a test", async () => {
  const { page } = await browser.visit(`${api.url}/webhooks`);
  await page.getByText("No webhooks yet.").waitFor();
  await expectAccessible(page);
  await create({
    name: "team",
    notifications: ["run.failed", "backfill.failed"],
    format: "slack",
    template: "{{title}} <b>",
    digest: "backfill",
  });
  const row = page.getByRole("row").filter({ hasText: "team" });
  await row.getByText("slack").waitFor();
  const text = await row.innerText();
  for (const part of [receiver.host, "one message for a backfill", "run.failed, backfill.failed"]) {
    expect(text).toContain(part);
  }
  // The path of an address is often a secret.
  expect(text).not.toContain("/hook");
  await row.getByText("Template").click();
  await row.getByText("{{title}} <b>").waitFor();
  await expectAccessible(page);
  receiver.answer = 200;
  await act(page, "Send test");
  await page.getByText("Webhook team was notified; the receiver answered 200.").waitFor();
  expect(JSON.parse(receiver.received[0]?.text ?? "")).toEqual({
    text: "Test of the webhook team <b>",
  });
  receiver.answer = 500;
  await act(page, "Send test");
  await page.getByText("Webhook team could not be notified. The receiver answered 500.").waitFor();
});

test("the list of webhooks says to whom e-mail goes, and under what subject", async () => {
  await create({
    name: "mail",
    url: undefined,
    email: { to: ["ops@example.com", "data@example.com"], subject: "{{title}} <b>" },
    notifications: ["run.failed"],
  });
  const { page } = await browser.visit(`${api.url}/webhooks`);
  const row = page.getByRole("row").filter({ hasText: "ops@example.com" });
  await row.waitFor();
  const text = await row.innerText();
  for (const part of ["ops@example.com, data@example.com", "e-mail", "Subject: {{title}} <b>"]) {
    expect(text).toContain(part);
  }
  await expectAccessible(page);
  await row.getByRole("button", { name: "Send test" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Send test" }).click();
  await page.getByText("smtp_url and email_from").waitFor();
});

test("the list of webhooks fits a phone, in the dark", async () => {
  await create({ name: "phone", notifications: ["run.failed"] });
  const options = { theme: "dark", width: 390, height: 800 } as const;
  const { page } = await browser.visit(`${api.url}/webhooks`, options);
  await page.getByRole("row").filter({ hasText: "phone" }).waitFor();
  await expectAccessible(page);
  await expectNoSidewaysScroll(page);
});
