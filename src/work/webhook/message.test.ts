import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DiscordMessage, SlackMessage, TeamsMessage } from "../../../test/chat-services.ts";
import { emailMessage, messageBody, NotificationBody, pagePathOf } from "./message.ts";

const TIMESTAMP = "2026-01-01T00:00:00.000Z";
const LINK = "https://pawl.example/backfills/b1";

/** A backfill that failed, as a digest tells of it. */
const FAILED = NotificationBody.parse({
  type: "backfill.failed",
  timestamp: TIMESTAMP,
  data: {
    pos: 7,
    backfill_id: "b1",
    outcome: "FAILED",
    reason: null,
    counts: { total: 20, succeeded: 8, failed: 12, cancelled: 0, skipped: 0 },
    error: { class: "user", message: "no <table> & *no* cry @everyone" },
    asset_selection: ["visits"],
    labels: { team: "web" },
    failures: ["2026-01-01", "2026-01-02"].map((partition_key) => ({
      asset_key: "visits",
      partition_key,
      run_id: "r1",
      error: { class: "user", message: "no <table>" },
    })),
  },
});

const TESTED = NotificationBody.parse({
  type: "webhook.test",
  timestamp: TIMESTAMP,
  data: { webhook_id: "w1", name: "alerts", correlation_id: "c1" },
});

describe("in Pawl's own format", () => {
  test("is the notification as it is, with a link where one can be given", () => {
    expect(messageBody(FAILED, {}, null)).toEqual(FAILED);
    expect(messageBody(FAILED, { format: "pawl" }, LINK)).toEqual({ ...FAILED, link: LINK });
  });

  test("has the text of a template beside it", () => {
    const template = "{{title}}: {{counts.failed}} of {{counts.total}}, {{labels.team}}{{reason}}";
    expect(messageBody(FAILED, { template }, null)).toEqual({
      ...FAILED,
      text: "Backfill failed: visits: 12 of 20, web",
    });
  });
});

describe("for Slack", () => {
  test("has a header, the error, facts, the first failures and a link", () => {
    const message = SlackMessage.parse(messageBody(FAILED, { format: "slack" }, LINK));
    expect(message.text).toBe("Backfill failed: visits");
    expect(message.blocks).toEqual([
      {
        type: "header",
        text: { type: "plain_text", text: "Backfill failed: visits", emoji: false },
      },
      {
        type: "section",
        text: { type: "mrkdwn", text: "*Error*\nno &lt;table&gt; &amp; *no* cry @everyone" },
      },
      {
        type: "section",
        fields: [
          { type: "mrkdwn", text: "*Partitions*\n8 succeeded, 12 failed of 20" },
          { type: "mrkdwn", text: "*Backfill*\nb1" },
          { type: "mrkdwn", text: "*Labels*\nteam=web" },
        ],
      },
      {
        type: "section",
        text: {
          type: "mrkdwn",
          text:
            "*Failed partitions*\nvisits 2026-01-01: no &lt;table&gt;\n" +
            "visits 2026-01-02: no &lt;table&gt;\nand 10 more",
        },
      },
      { type: "section", text: { type: "mrkdwn", text: `<${LINK}|Open in Pawl>` } },
    ]);
  });

  test("leaves the marks of a template alone and escapes what it is filled with", () => {
    const template = "<!channel> *{{error.message}}*";
    expect(messageBody(FAILED, { format: "slack", template }, null)).toEqual({
      text: "<!channel> *no &lt;table&gt; &amp; *no* cry @everyone*",
    });
  });
});

describe("for Teams", () => {
  test("is a card whose texts are shown as they are, with a button to the page", () => {
    const message = TeamsMessage.parse(messageBody(FAILED, { format: "teams" }, LINK));
    const [{ content }] = message.attachments;
    const lines = content.body.map(({ inlines }) => inlines.map(({ text }) => text).join(""));
    expect(lines).toEqual([
      "Backfill failed: visits",
      "Error: no <table> & *no* cry @everyone",
      "Partitions: 8 succeeded, 12 failed of 20",
      "Backfill: b1",
      "Labels: team=web",
      "Failed partitions",
      "• visits 2026-01-01: no <table>",
      "• visits 2026-01-02: no <table>",
      "• and 10 more",
    ]);
    expect(content.body[0]?.inlines[0]).toMatchObject({ weight: "Bolder", color: "Attention" });
    expect(content.actions).toEqual([{ type: "Action.OpenUrl", title: "Open in Pawl", url: LINK }]);
  });

  test("has a line for each line of a template", () => {
    const template = "{{title}}\n\n{{link}}";
    const body = messageBody(FAILED, { format: "teams", template }, LINK);
    const [{ content }] = TeamsMessage.parse(body).attachments;
    expect(content.body.map(({ inlines }) => inlines[0]?.text)).toEqual([
      "Backfill failed: visits",
      LINK,
    ]);
  });
});

describe("for Discord", () => {
  test("is an embed that leads to the page and calls nobody", () => {
    const message = DiscordMessage.parse(messageBody(FAILED, { format: "discord" }, LINK));
    expect(message.allowed_mentions).toEqual({ parse: [] });
    expect(message.embeds).toMatchObject([
      {
        title: "Backfill failed: visits",
        url: LINK,
        timestamp: TIMESTAMP,
        fields: [
          { name: "Partitions", value: "8 succeeded, 12 failed of 20" },
          { name: "Backfill", value: "b1" },
          { name: "Labels", value: "team=web" },
        ],
      },
    ]);
    expect(message.embeds?.[0]?.description).toContain("no <table\\> & \\*no\\* cry");
    expect(message.embeds?.[0]?.description).toContain("**Failed partitions**\nvisits 2026");
  });

  test("calls those whom the template calls, and nobody whom a value would, which makes no links", () => {
    const style = { format: "discord", template: "<@&77> <@5> {{error.message}}" } as const;
    expect(messageBody(FAILED, style, null)).toEqual({
      content: "<@&77> <@5> no <table> & *no* cry @everyone",
      allowed_mentions: { parse: [], roles: ["77"], users: ["5"] },
    });
    const message = "see [the run](https://example.org/) or [1](2)";
    const linked = { ...FAILED, data: { ...FAILED.data, error: { class: "user", message } } };
    const text = { format: "discord", template: "[Pawl]({{link}}) {{error.message}}" } as const;
    expect(messageBody(linked, text, LINK)).toMatchObject({
      content: `[Pawl](${LINK}) see [the run]\\(https://example.org/) or [1]\\(2)`,
    });
    const all = { format: "discord", template: "@here {{title}}" } as const;
    expect(messageBody(FAILED, all, null)).toMatchObject({
      allowed_mentions: { parse: ["everyone"] },
    });
  });
});

describe("as e-mail", () => {
  const email = { to: ["ops@example.com"] };

  test("has the title as its subject, and the same in text and in HTML", () => {
    const message = emailMessage(FAILED, { email }, LINK);
    expect(message?.to).toEqual(["ops@example.com"]);
    expect(message?.subject).toBe("Backfill failed: visits");
    expect(message?.text.split("\n")).toEqual([
      "Backfill failed: visits",
      "",
      "Error: no <table> & *no* cry @everyone",
      "",
      "Partitions: 8 succeeded, 12 failed of 20",
      "Backfill: b1",
      "Labels: team=web",
      "",
      "Failed partitions:",
      "- visits 2026-01-01: no <table>",
      "- visits 2026-01-02: no <table>",
      "- and 10 more",
      "",
      `Open in Pawl: ${LINK}`,
    ]);
    for (const part of [
      "no &lt;table&gt; &amp; *no* cry @everyone",
      "<li>visits 2026-01-01: no &lt;table&gt;</li>",
      `<a href="${LINK}">Open in Pawl</a>`,
    ]) {
      expect(message?.html).toContain(part);
    }
    expect(messageBody(FAILED, { email }, LINK)).toEqual(message);
    expect(emailMessage(FAILED, { format: "slack" }, LINK)).toBeNull();
  });

  test("has the text of a template, with a link that can be clicked, and its own subject", () => {
    const style = {
      email: { ...email, subject: "[{{labels.team}}] {{counts.failed}} failed" },
      template: "<b>{{error.message}}</b>\n{{link}}",
    };
    expect(emailMessage(FAILED, style, LINK)).toEqual({
      to: ["ops@example.com"],
      subject: "[web] 12 failed",
      text: `<b>no <table> & *no* cry @everyone</b>\n${LINK}`,
      html:
        '<p style="white-space:pre-wrap">&lt;b&gt;no &lt;table&gt; &amp; *no* cry @everyone&lt;/b&gt;\n' +
        `<a href="${LINK}">${LINK}</a></p>`,
    });
  });

  test("has one line as its subject, whatever a value holds", () => {
    const message = "no\r\nBcc: evil@example.com\u2028\u0000\tend";
    const body = { ...FAILED, data: { ...FAILED.data, error: { class: "user", message } } };
    const style = { email: { ...email, subject: "{{error.message}}" } };
    expect(emailMessage(body, style, null)?.subject).toBe("no Bcc: evil@example.com end");
    const asset_selection = ["a\nBcc: evil@example.com"];
    const named = { ...FAILED, data: { ...FAILED.data, asset_selection } };
    expect(emailMessage(named, { email }, null)?.subject).toBe(
      "Backfill failed: a Bcc: evil@example.com",
    );
    const long = { ...FAILED, data: { ...FAILED.data, asset_selection: ["x".repeat(900)] } };
    expect(emailMessage(long, { email }, null)?.subject).toHaveLength(200);
  });
});

describe("a test of a webhook", () => {
  test("says so, and shows where values will stand", () => {
    const template = "{{title}}: {{error.message}} {{link}}";
    expect(messageBody(TESTED, { format: "slack", template }, null)).toEqual({
      text: "Test of the webhook alerts: ‹error.message› ‹link›",
    });
    const { text } = SlackMessage.parse(messageBody(TESTED, { format: "slack" }, null));
    expect(text).toBe("Test of the webhook alerts");
  });
});

test("a template whose values are all empty gives the title, as no service takes an empty text", () => {
  const style = { format: "slack", template: "{{reason}}" } as const;
  expect(messageBody(FAILED, style, null)).toEqual({ text: "Backfill failed: visits" });
  const body = { ...FAILED, data: { ...FAILED.data, asset_selection: ["&".repeat(5_000)] } };
  SlackMessage.parse(messageBody(body, style, null));
});

test("every message keeps the limits of its service, however long its values are", () => {
  const nasty = fc.oneof(
    fc.string({ unit: "binary", maxLength: 30 }),
    fc.constantFrom(
      "&".repeat(5_000),
      "<".repeat(9_000),
      "*_`\\".repeat(2_000),
      "\u0000".repeat(3_000),
    ),
    fc.constantFrom(
      "😀".repeat(4_000),
      "\ud83d".repeat(2_000),
      "line\n".repeat(1_000),
      "ʼ".repeat(9_000),
    ),
  );
  const template = fc.constantFrom(
    undefined,
    "{{title}}",
    "{{error.message}}{{failures}}{{asset_selection}}{{reason}}",
    "{{error.message}}".repeat(100),
    "x".repeat(2_000),
    "a\n".repeat(1_000),
  );
  const texts = fc.record({
    message: nasty,
    reason: nasty,
    key: nasty,
    label: nasty,
    assets: fc.array(nasty, { maxLength: 12 }),
    count: fc.integer({ min: 0, max: 10 }),
    template,
  });
  fc.assert(
    fc.property(texts, ({ message, reason, key, label, assets, count, ...style }) => {
      const error = { class: "user", message };
      const failure = { asset_key: key, partition_key: key, run_id: "r", error };
      const data = {
        ...FAILED.data,
        error,
        reason,
        asset_selection: assets,
        partition_keys: Array.from({ length: 100 }, () => key),
        tenants: assets,
        labels: { [label]: label },
        failures: Array.from({ length: count }, () => failure),
      };
      const body = { ...FAILED, data };
      SlackMessage.parse(messageBody(body, { ...style, format: "slack" }, LINK));
      TeamsMessage.parse(messageBody(body, { ...style, format: "teams" }, LINK));
      const subject = style.template === undefined ? {} : { subject: style.template };
      const email = { to: ["ops@example.com"], ...subject };
      const written = emailMessage(body, { ...style, email }, LINK);
      expect(written?.subject).toMatch(/^[^\p{Cc}]{1,200}$/u);
      expect(written?.html).not.toMatch(/<(?!\/?(?:h2|p|b|a|ul|li|table|tr|td)\b)/);
      DiscordMessage.parse(messageBody(body, { ...style, format: "discord" }, LINK));
    }),
    { numRuns: 100 },
  );
});

test("a card that is too large for Teams has shorter texts, and not fewer", () => {
  const long = "ʼ".repeat(9_000);
  const texts = { reason: long, step: long, direction: long, run_id: long, partition_keys: [long] };
  const more = { tenants: [long], labels: { team: long }, error: { class: "user", message: long } };
  const body = { ...FAILED, data: { ...FAILED.data, ...texts, ...more } };
  const [{ content }] = TeamsMessage.parse(
    messageBody(body, { format: "teams" }, LINK),
  ).attachments;
  const labels = content.body.map(({ inlines }) => inlines[0]?.text);
  expect(labels).toEqual(expect.arrayContaining(["Error: ", "Reason: ", "Labels: ", "Step: "]));
  expect(content.body[1]?.inlines[1]?.text).toMatch(/^ʼ{100,}…$/);
});

test("characters that nobody sees are left out, as are halves of others", () => {
  const error = { class: "user", message: "no\u0000\u001b[31m luck\ud83d" };
  const body = { ...FAILED, data: { ...FAILED.data, error } };
  expect(messageBody(body, { format: "slack", template: "{{error.message}}" }, null)).toEqual({
    text: "no[31m luck\ufffd",
  });
});

test("pagePathOf leads to the page of what a notification is about", () => {
  expect(pagePathOf(FAILED)).toBe("/backfills/b1");
  const split = { ...FAILED, type: "split.failed", data: { split_id: "a/b" } };
  expect(pagePathOf(split)).toBe("/splits/a%2Fb");
  expect(pagePathOf(TESTED)).toBeNull();
});
