import { z } from "zod";
import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import type { WebhookSpec } from "../definition/spec.ts";
import { InstantText, JsonValue } from "../envelope.ts";
import { fillTemplate, isRecord, valueAt, valueText } from "./template.ts";

/** A notification as it is kept until it is delivered, and as Pawl's own format sends it. */
export const NotificationBody = z.object({
  type: z.string(),
  timestamp: InstantText,
  data: z.record(z.string(), JsonValue),
});
export type NotificationBody = z.infer<typeof NotificationBody>;

/** What says how a webhook's messages are written. */
export type MessageStyle = Pick<WebhookSpec, "format" | "template" | "email">;

/** An e-mail as it is written; the subject is one line. */
export type EmailMessage = { to: string[]; subject: string; text: string; html: string };

/** A type that no webhook asks for: it is sent when somebody tests one. */
export const TEST_TYPE = "webhook.test";

/** Error messages and lists of failures are cut to this before a service's own limits are met. */
const ERROR_LENGTH_MAX = 1_200;
const FACT_LENGTH_MAX = 200;
const FAILURES_LENGTH_MAX = 1_800;

/** Slack: 150 characters in a header, 10 fields in a section; longer texts than 4,000 are split. */
const SLACK_HEADER_MAX = 150;
const SLACK_FIELDS_MAX = 10;
const SLACK_TEXT_MAX = 4_000;

/** Teams: 28 KB for a whole message. */
const TEAMS_BYTES_MAX = 28_000;
const TEAMS_LINES_MAX = 50;

/**
 * Discord: 2,000 characters of content; 256 of a title, and 6,000 of an embed in all, which what its
 * parts are cut to stays below.
 */
const DISCORD_CONTENT_MAX = 2_000;
const DISCORD_TITLE_MAX = 256;
const DISCORD_FIELDS_MAX = 10;

/** E-mail: a subject is cut before clients cut it; the text may be as long as it comes out. */
const EMAIL_SUBJECT_MAX = 200;
const EMAIL_TEXT_MAX = 100_000;

/** The path of the page that shows what a notification is about; null when there is none. */
export function pagePathOf({ type, data }: NotificationBody): string | null {
  const subject = type.slice(0, type.indexOf("."));
  const id = data[`${subject}_id`];
  if (typeof id !== "string" || subject === "webhook") return null;
  return `/${subject}s/${encodeURIComponent(id)}`;
}

/** What the receiver of a webhook is sent: the notification in its format, with its template. */
export function messageBody(
  body: NotificationBody,
  style: MessageStyle,
  link: string | null,
): Json {
  return emailMessage(body, style, link) ?? postedBody(body, style, link);
}

function postedBody(
  body: NotificationBody,
  { format = "pawl", template }: MessageStyle,
  link: string | null,
): Json {
  const message = messageOf(body, link);
  switch (format) {
    case "pawl":
      return {
        ...body,
        ...(link === null ? {} : { link }),
        ...(template === undefined ? {} : { text: filled(template, message, SLACK_TEXT_MAX) }),
      };
    case "slack":
      return template === undefined
        ? slackBlocks(message)
        : { text: filled(template, message, SLACK_TEXT_MAX, escapeSlack) };
    case "teams":
      return teamsCard(message, template);
    case "discord":
      return template === undefined
        ? discordEmbed(message)
        : discordContent(filled(template, message, DISCORD_CONTENT_MAX, withoutLinks), template);
  }
}

type Tone = "good" | "bad" | "warning";

/** A notification in words: what every format is written from. */
type Message = {
  body: NotificationBody;
  title: string;
  tone: Tone;
  error: string;
  facts: readonly (readonly [label: string, value: string])[];
  failures: readonly string[];
  link: string | null;
};

const GOOD = ["succeeded", "recovered", "caught_up", "cut_over", "completed", "test"];
const BAD = ["failed", "error", "poisoned"];

function messageOf(body: NotificationBody, link: string | null): Message {
  const { type, data } = body;
  const outcome = type.slice(type.indexOf(".") + 1);
  const text = (path: string): string => shownText(valueAt(data, path));
  return {
    body,
    title: titleOf(type, outcome, text),
    tone: GOOD.includes(outcome) ? "good" : BAD.includes(outcome) ? "bad" : "warning",
    error: text("error.message").trim(),
    facts: factsOf(data, text).filter(([, value]) => value.trim() !== ""),
    failures: failureLines(data),
    link,
  };
}

type TextOf = (path: string) => string;

/** Control characters show as nothing, and some services refuse them. */
const CONTROL = /(?![\n\t])\p{Cc}/gu;

function shownText(value: Json): string {
  return valueText(value).replaceAll(CONTROL, "").toWellFormed();
}

function titleOf(type: string, outcome: string, text: TextOf): string {
  const words = outcome.replaceAll("_", " ");
  switch (type.slice(0, type.indexOf("."))) {
    case "run":
      return `Run ${words}: ${text("asset_selection")}`;
    case "backfill":
      return `Backfill ${words}: ${text("asset_selection")}`;
    case "schedule": {
      const count = Number(text("count"));
      return `Schedule ${text("name")} ${words}${count > 1 ? ` ${count} times` : ""}`;
    }
    case "sensor":
      return `Sensor ${text("name")} ${outcome === "error" ? "failed" : words}`;
    case "split":
      return `Split ${text("source")} → ${text("target")}: ${words}`;
    case "move":
      return `Move ${text("name")}: ${outcome === "poisoned" ? "segment quarantined" : words}`;
    default:
      return `Test of the webhook ${text("name")}`;
  }
}

function factsOf(data: NotificationBody["data"], text: TextOf): [string, string][] {
  return [
    ["Reason", text("reason")],
    ["Partitions", countsText(data["counts"] ?? null)],
    ["Keys", text("partition_keys")],
    ["Scheduled for", text("scheduled_for")],
    ["Triggered by", text("trigger_source_ref.type")],
    ["Backfill", text("backfill_id")],
    ["Run", text("run_id")],
    ["Tenants", text("tenants")],
    ["Step", text("step")],
    ["Direction", text("direction")],
    ["Segments", text("segments_total")],
    ["Quarantined", text("segments_poisoned")],
    ["Labels", labelsText(data["labels"] ?? null)],
  ];
}

function countsText(counts: Json): string {
  if (!isRecord(counts)) return "";
  const { total, ...others } = counts;
  const parts = Object.entries(others).flatMap(([outcome, count]) =>
    count === 0 ? [] : [`${valueText(count)} ${outcome}`],
  );
  const said = parts.length === 0 ? "none done" : parts.join(", ");
  return total === undefined ? said : `${said} of ${valueText(total)}`;
}

function labelsText(labels: Json): string {
  if (!isRecord(labels)) return "";
  return Object.entries(labels)
    .map(([name, value]) => shownText(`${name}=${valueText(value)}`))
    .join(", ");
}

/** A line for each partition that a digest names, and one for how many more failed. */
function failureLines(data: NotificationBody["data"]): string[] {
  const { failures = null, counts = null } = data;
  if (!Array.isArray(failures) || failures.length === 0) return [];
  const listed: readonly Json[] = failures;
  const lines = listed.map((failure) => {
    const text = (path: string): string => shownText(valueAt(failure, path));
    const where = [text("asset_key"), text("partition_key")].filter((part) => part !== "");
    return `${where.join(" ")}: ${text("error.message")}`;
  });
  const more = Number(valueText(valueAt(counts, "failed"))) - lines.length;
  return more > 0 ? [...lines, `and ${more} more`] : lines;
}

/** Lengths of a value in a filled template, tried until the whole of it fits. */
const VALUE_LENGTHS = [1_000, 400, 150, 50, 10];

/** The text of a template; the title where all that it names is empty, as no service takes nothing. */
function filled(template: string, message: Message, max: number, write: Write = same): string {
  const { body, title, link, failures } = message;
  const isTest = body.type === TEST_TYPE;
  const valueOf = (name: string): string => {
    if (name === "type" || name === "timestamp") return body[name];
    if (name === "title") return title;
    if (name === "failures" && !isTest) return failures.join("\n");
    const value = name === "link" ? (link ?? "") : shownText(valueAt(body.data, name));
    // A test has no run or backfill to tell of, and shows where their values will stand.
    return value === "" && isTest ? `‹${name}›` : value;
  };
  for (const most of VALUE_LENGTHS) {
    const text = fillTemplate(template, (name) => write(clip(valueOf(name), most))).trim();
    if (text === "") return fitted(title, max, write);
    if (text.length <= max) return text;
  }
  return clip(
    fillTemplate(template, () => "…"),
    max,
  );
}

/** How a format writes a text that is to be shown as it is. */
type Write = (text: string) => string;

function same(text: string): string {
  return text;
}

/** Slack takes these three for the beginnings of links, mentions and commands. */
function escapeSlack(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function escapeMarkdown(text: string): string {
  return text.replaceAll(/[\\*_~`|>[\]()#-]/g, (mark) => `\\${mark}`);
}

/** A text in which no words stand for another address than they show; all else of it stays as it is. */
function withoutLinks(text: string): string {
  return text.replaceAll("](", "]\\(");
}

/** The beginning of a text, marked as such; never half of a character. */
function clip(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

/** A text as a format writes it, cut before it is written so that no escape is cut in half. */
function fitted(text: string, max: number, write: Write): string {
  for (let most = max; ; most = Math.floor(most * 0.8)) {
    const short = write(clip(text, most));
    if (short.length <= max || most <= 1) return short;
  }
}

/** Lines as a format writes them, as many as fit. */
function fittedLines(lines: readonly string[], max: number, write: Write): string {
  const kept: string[] = [];
  let room = max;
  for (const line of lines) {
    const short = fitted(line.replaceAll(/\s+/g, " "), FACT_LENGTH_MAX * 2, write);
    if (short.length + 2 > room) return [...kept, "…"].join("\n");
    room -= short.length + 1;
    kept.push(short);
  }
  return kept.join("\n");
}

function slackBlocks({ title, error, facts, failures, link }: Message): Json {
  const section = (text: string): Json => ({ type: "section", text: { type: "mrkdwn", text } });
  const fields = facts.slice(0, SLACK_FIELDS_MAX).map(([label, value]): Json => {
    return { type: "mrkdwn", text: `*${label}*\n${fitted(value, FACT_LENGTH_MAX, escapeSlack)}` };
  });
  const failed = fittedLines(failures, FAILURES_LENGTH_MAX, escapeSlack);
  return {
    // What a phone shows, and what is read aloud.
    text: fitted(title, SLACK_TEXT_MAX, escapeSlack),
    blocks: [
      {
        type: "header",
        text: { type: "plain_text", text: clip(title, SLACK_HEADER_MAX), emoji: false },
      },
      ...(error === ""
        ? []
        : [section(`*Error*\n${fitted(error, ERROR_LENGTH_MAX, escapeSlack)}`)]),
      ...(fields.length === 0 ? [] : [{ type: "section", fields }]),
      ...(failed === "" ? [] : [section(`*Failed partitions*\n${failed}`)]),
      ...(link === null ? [] : [section(`<${escapeSlack(link)}|Open in Pawl>`)]),
    ],
  };
}

const TEAMS_COLOURS = { good: "Good", bad: "Attention", warning: "Warning" } as const;

/** Lengths of a text in a card, tried until the whole of it fits. */
const TEAMS_LENGTHS = [ERROR_LENGTH_MAX, 400, 150];

function teamsCard(message: Message, template: string | undefined): Json {
  for (const most of TEAMS_LENGTHS) {
    const lines =
      template === undefined
        ? teamsLines(message, most)
        : filled(template, message, SLACK_TEXT_MAX)
            .split("\n")
            .filter((line) => line.trim() !== "")
            .slice(0, TEAMS_LINES_MAX)
            .map((line) => textLine([{ type: "TextRun", text: clip(line, most) }]));
    const card = teamsMessage(lines, message.link);
    if (utf8Length(canonicalJson(card)) <= TEAMS_BYTES_MAX) return card;
  }
  const title = textLine([{ type: "TextRun", text: clip(message.title, FACT_LENGTH_MAX) }]);
  return teamsMessage([title], message.link);
}

/** Runs of text are shown as they are; in any other element of a card they would be Markdown. */
function textLine(inlines: readonly Json[]): Json {
  return { type: "RichTextBlock", inlines };
}

function teamsLines({ title, tone, error, facts, failures }: Message, most: number): Json[] {
  const color = TEAMS_COLOURS[tone];
  const labelled = ([label, value]: readonly [string, string]): Json =>
    textLine([
      { type: "TextRun", text: `${label}: `, weight: "Bolder" },
      { type: "TextRun", text: clip(value.replaceAll(/\s+/g, " "), most) },
    ]);
  const head = { type: "TextRun", weight: "Bolder", size: "Large", color } as const;
  const lines = fittedLines(failures, FAILURES_LENGTH_MAX, same).split("\n");
  return [
    textLine([{ ...head, text: clip(title, FACT_LENGTH_MAX) }]),
    ...(error === "" ? [] : [labelled(["Error", error])]),
    ...facts.map(labelled),
    ...(failures.length === 0
      ? []
      : [
          textLine([{ type: "TextRun", text: "Failed partitions", weight: "Bolder" }]),
          ...lines.map((line) => textLine([{ type: "TextRun", text: `• ${line}` }])),
        ]),
  ];
}

function teamsMessage(body: readonly Json[], link: string | null): Json {
  const content = {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.4",
    msteams: { width: "Full" },
    body,
    ...(link === null
      ? {}
      : { actions: [{ type: "Action.OpenUrl", title: "Open in Pawl", url: link }] }),
  };
  const contentType = "application/vnd.microsoft.card.adaptive";
  return { type: "message", attachments: [{ contentType, contentUrl: null, content }] };
}

function utf8Length(text: string): number {
  let bytes = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
  }
  return bytes;
}

const DISCORD_COLOURS = { good: 0x2e7d32, bad: 0xc62828, warning: 0xf9a825 } as const;

function discordEmbed({ body, title, tone, error, facts, failures, link }: Message): Json {
  const failed = fittedLines(failures, FAILURES_LENGTH_MAX, escapeMarkdown);
  const description = [
    error === "" ? "" : fitted(error, ERROR_LENGTH_MAX, escapeMarkdown),
    failed === "" ? "" : `**Failed partitions**\n${failed}`,
  ].filter((part) => part !== "");
  const embed = {
    title: fitted(title, DISCORD_TITLE_MAX, escapeMarkdown),
    ...(link === null ? {} : { url: link }),
    ...(description.length === 0 ? {} : { description: description.join("\n\n") }),
    color: DISCORD_COLOURS[tone],
    timestamp: body.timestamp,
    fields: facts.slice(0, DISCORD_FIELDS_MAX).map(([name, value]) => {
      return { name, value: fitted(value, FACT_LENGTH_MAX, escapeMarkdown), inline: true };
    }),
  };
  return { embeds: [embed], allowed_mentions: { parse: [] } };
}

/** Only the template may call somebody, never what an error message happens to hold. */
function discordContent(content: string, template: string): Json {
  const idsOf = (pattern: RegExp): string[] => [
    ...new Set([...template.matchAll(pattern)].map(([, id = ""]) => id)),
  ];
  return {
    content,
    allowed_mentions: {
      parse: /@(?:everyone|here)\b/.test(template) ? ["everyone"] : [],
      roles: idsOf(/<@&(\d+)>/g),
      users: idsOf(/<@!?(\d+)>/g),
    },
  };
}

const EMAIL_COLOURS = { good: "#2e7d32", bad: "#c62828", warning: "#a15c00" } as const;

/** A notification as e-mail; null for a webhook that sends none. */
export function emailMessage(
  body: NotificationBody,
  { email, template }: MessageStyle,
  link: string | null,
): EmailMessage | null {
  if (email === undefined) return null;
  const message = messageOf(body, link);
  const subject =
    email.subject === undefined ? message.title : filled(email.subject, message, EMAIL_SUBJECT_MAX);
  // Whatever a value holds, a header of its own cannot come of it.
  const line = subject.replaceAll(/\s+/g, " ").trim();
  const written =
    template === undefined
      ? emailParts(message)
      : emailOfText(filled(template, message, EMAIL_TEXT_MAX), link);
  return { to: [...email.to], subject: clip(line, EMAIL_SUBJECT_MAX), ...written };
}

function emailParts({ title, tone, error, facts, failures, link }: Message) {
  const failed = fittedLines(failures, FAILURES_LENGTH_MAX, same);
  const short = facts.map(([label, value]) => {
    return [label, clip(value.replaceAll(/\s+/g, " "), FACT_LENGTH_MAX)] as const;
  });
  const cause = clip(error, ERROR_LENGTH_MAX);
  const list = failed === "" ? [] : failed.split("\n");
  const text = [
    title,
    cause === "" ? "" : `Error: ${cause}`,
    short.map(([label, value]) => `${label}: ${value}`).join("\n"),
    list.length === 0 ? "" : ["Failed partitions:", ...list.map((each) => `- ${each}`)].join("\n"),
    link === null ? "" : `Open in Pawl: ${link}`,
  ];
  const row = ([label, value]: readonly [string, string]): string =>
    `<tr><td style="padding-right:1em;vertical-align:top"><b>${escapeHtml(label)}</b></td>` +
    `<td>${escapeHtml(value)}</td></tr>`;
  const html = [
    `<h2 style="color:${EMAIL_COLOURS[tone]}">${escapeHtml(title)}</h2>`,
    cause === "" ? "" : `<p style="white-space:pre-wrap">${escapeHtml(cause)}</p>`,
    short.length === 0 ? "" : `<table>${short.map(row).join("")}</table>`,
    list.length === 0
      ? ""
      : `<p><b>Failed partitions</b></p><ul>${list.map((each) => `<li>${escapeHtml(each)}</li>`).join("")}</ul>`,
    link === null ? "" : `<p><a href="${escapeHtml(link)}">Open in Pawl</a></p>`,
  ];
  return { text: joined(text, "\n\n"), html: joined(html, "\n") };
}

/** A template is text; where the link to the page stands in it, it can be clicked. */
function emailOfText(text: string, link: string | null) {
  const escaped = escapeHtml(text);
  const target = link === null ? "" : escapeHtml(link);
  const anchor = `<a href="${target}">${target}</a>`;
  const linked = target === "" ? escaped : escaped.split(target).join(anchor);
  return { text, html: `<p style="white-space:pre-wrap">${linked}</p>` };
}

function joined(parts: readonly string[], between: string): string {
  return parts.filter((part) => part !== "").join(between);
}

function escapeHtml(text: string): string {
  return escapeSlack(text).replaceAll('"', "&quot;").replaceAll("'", "&#39;");
}
