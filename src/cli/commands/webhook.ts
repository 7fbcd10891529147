import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import { NOTIFICATIONS, WEBHOOK_FORMATS } from "../../work/definition/spec.ts";
import type { PartInput } from "../../work/operations.ts";
import {
  type DeliveryDocument,
  UpdateWebhookBody,
  type WebhookDocument,
} from "../../work/webhook/api.ts";
import type { Cli } from "../cli.ts";
import {
  type FlagValues,
  omitUndefined,
  option,
  PAGE,
  relativeTime,
  VERSION,
} from "../base/options.ts";
import { optionMissing } from "../base/project.ts";
import { shortId } from "../base/api.ts";
import {
  addSubcommands,
  changedDefinition,
  changedText,
  enabledOf,
  messageText,
  namedSubject,
  operation,
  outcomeOf,
  partsOf,
  subcommand,
} from "../base/subcommands.ts";
import {
  type Column,
  labelsText,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paintState,
  type Terminal,
} from "../base/terminal.ts";

const WEBHOOK = namedSubject("webhook", "webhook_id", (client) =>
  client.each("listWebhooks", { query: { limit: 200, status: "ACTIVE,PAUSED,DELETED" } }),
);

const DEFINITION = {
  to: option.text("--to <url>", "the address that is notified"),
  email: option.repeated("--email <addresses>", "whom to send e-mail instead, with commas"),
  subject: option.text(
    "--subject <text>",
    "the subject of e-mail, such as 'Pawl: {{title}}'; none for the usual one",
  ),
  on: option.repeated("--on <names>", `of what, with commas: all, or ${NOTIFICATIONS.join(", ")}`),
  asset: option.repeated("--asset <key>", "only of this asset; may be repeated; none for any"),
  format: option.choice("--format <name>", "how messages are written", WEBHOOK_FORMATS),
  template: option.text(
    "--template <text>",
    "the text of a message, such as '{{title}}: {{error.message}}'; none for the usual one",
  ),
  digest: option.choice("--digest <what>", "one message for a backfill, none for its runs", [
    "backfill",
    "none",
  ]),
  disabled: option.switch("--disabled", "do not let it act"),
  label: option.labels("--label <key=value>", "a label; may be repeated, and replaces all"),
  description: option.text("--description <text>", "what it is for"),
};

type Definition = Omit<PartInput<"updateWebhook", "body">, "name" | "expected_state_version">;

function definitionOf(
  flags: FlagValues<typeof DEFINITION> & { enabled?: boolean },
  current: Pick<Definition, "email"> = {},
): Partial<Definition> {
  const { on, asset, format, template, digest, label: labels, description } = flags;
  const enabled = enabledOf(flags);
  const assets = asset === undefined ? undefined : partsOf(asset).filter((key) => key !== "none");
  const notifications = on === undefined ? undefined : notificationsOf(partsOf(on));
  const given = { notifications, assets, format, enabled, labels, description };
  return {
    ...receiverOf(flags, current),
    ...omitUndefined(given),
    // The word none takes back what was set before: the definition is sent without it.
    ...(template === undefined ? {} : { template: template === "none" ? undefined : template }),
    ...(digest === undefined ? {} : { digest: digest === "none" ? undefined : digest }),
  };
}

/** Whom a webhook tells now; the other kind of receiver is taken back, with what belongs to it. */
function receiverOf(
  { to: url, email, subject }: FlagValues<typeof DEFINITION>,
  current: Pick<Definition, "email">,
): Partial<Definition> {
  if (url !== undefined && email !== undefined) {
    throw new PawlError("INPUT_INVALID", "Expected --to or --email, got both.");
  }
  const before = url === undefined ? current.email : undefined;
  const to = email === undefined ? before?.to : partsOf(email);
  if (subject !== undefined && to === undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      "--subject is the subject of e-mail; say with --email to whom it is sent.",
    );
  }
  if (url !== undefined) return { url, email: undefined };
  if (to === undefined || (email === undefined && subject === undefined)) return {};
  const text = subject === "none" ? undefined : (subject ?? before?.subject);
  return {
    url: undefined,
    format: undefined,
    email: { to, ...(text === undefined ? {} : { subject: text }) },
  };
}

function notificationsOf(names: readonly string[]): Definition["notifications"] {
  if (names.includes("all")) return [...NOTIFICATIONS];
  const unknown = names.find((name) => !NOTIFICATIONS.some((known) => known === name));
  if (unknown === undefined) return [...new Set(names)] as Definition["notifications"];
  throw new PawlError(
    "INPUT_INVALID",
    `--on: expected all, or some of ${NOTIFICATIONS.join(", ")}, got ${JSON.stringify(unknown)}.`,
    { details: { option: "--on", got: unknown } },
  );
}

const WEBHOOKS = {
  create: operation("createWebhook", {
    description: "create a webhook; the secret it signs with is shown this once",
    argument: ["<name>", "what to call it"],
    flags: {
      ...DEFINITION,
      requestId: option.requestId("never creates a second"),
    },
    need: "definitions",
    fields({ argument: name, flags }) {
      const { notifications, ...rest } = definitionOf(flags);
      if (rest.url === undefined && rest.email === undefined) {
        throw optionMissing("--to or --email", "the address to notify, or whom to send e-mail");
      }
      if (notifications === undefined) {
        throw optionMissing("--on", "what to notify of, such as run.failed");
      }
      return { name, notifications, ...rest };
    },
    text(_terminal, { secret, signed, message, webhook_id }) {
      if (!signed) return `${message}\nIts id: ${webhook_id}`;
      const secretLine =
        secret === null
          ? "Its secret was shown before; `pawl webhook secret` makes a new one."
          : `Its secret, which is not shown again: ${secret}`;
      // The server says at once when the address is one that is never told.
      return `${message}\nIts id: ${webhook_id}\n${secretLine}`;
    },
  }),
  update: subcommand({
    description: "change a webhook; what no option names stays as it is, also its secret",
    about: WEBHOOK,
    flags: {
      ...DEFINITION,
      enabled: option.switch("--enabled", "let it act again"),
      expected_state_version: VERSION,
    },
    need: "definitions",
    async run({ client, ref: webhook_id, flags }) {
      const params = { webhook_id };
      const current = await client.call("getWebhook", { params });
      const body = changedDefinition<Definition>({
        current,
        body: UpdateWebhookBody,
        changes: definitionOf(flags, current),
        example: "--to",
        expectedStateVersion: flags.expected_state_version,
      });
      const changed = await client.call("updateWebhook", { params, body });
      return outcomeOf(changed, () =>
        changed.accepted_event_id === null
          ? changedText("Webhook", changed)
          : `${changed.message}\nIt is at version ${changed.state_version}.`,
      );
    },
  }),
  delete: operation("deleteWebhook", {
    description: "delete a webhook and its pending notifications",
    about: WEBHOOK,
    flags: { expected_state_version: VERSION },
    text: messageText,
  }),
  secret: operation("createWebhookSecret", {
    description: "make a new secret that a webhook signs with; it is shown this once",
    about: WEBHOOK,
    flags: {
      overlap_seconds: option.seconds(
        "--overlap <duration>",
        "how long the one before signs too (default: 24h)",
      ),
    },
    text: (_terminal, { secret }) => secret,
    note: () => "Keep it now: it is not shown again.",
  }),
  list: operation("listWebhooks", {
    description: "list webhooks by name",
    flags: {
      status: option.states("--status <states>", "only these, such as paused or deleted"),
      ...PAGE,
    },
    text: webhooksText,
  }),
  show: subcommand({
    description: "show a webhook and its pending notifications",
    about: WEBHOOK,
    async run({ terminal, client, ref: webhook_id }) {
      const params = { webhook_id };
      const document = await client.call("getWebhook", { params });
      const query = { limit: 10 };
      const { items: deliveries } = await client.call("listDeliveries", { params, query });
      return outcomeOf({ ...document, deliveries }, () =>
        webhookText(terminal, document, deliveries),
      );
    },
  }),
  deliveries: operation("listDeliveries", {
    description: "list the pending and failed notifications of a webhook, newest first",
    about: WEBHOOK,
    flags: {
      status: option.smallStates("--status <states>", "only pending, or only failed"),
      ...PAGE,
    },
    text: (terminal, page) =>
      layoutPage(page, "No notification is pending or failed.", deliveryColumns(terminal)),
  }),
  test: subcommand({
    description:
      "send a test to a webhook now, show it, and fail when the receiver does not take it",
    about: WEBHOOK,
    async run({ client, ref: webhook_id, subject: webhook }) {
      const tested = await client.call("testWebhook", { params: { webhook_id } });
      const { delivered, message, body } = tested;
      const sent = `What was sent:\n${JSON.stringify(body, null, 2)}`;
      if (delivered) return outcomeOf(tested, () => `${message}\n${sent}`);
      const failure = new PawlError("WEBHOOK_FAILED", message, { details: { webhook } });
      return outcomeOf(tested, () => sent, failure);
    },
  }),
};

/** Adds the commands about webhooks. */
export function addWebhookCommands(webhook: Command, cli: Cli): void {
  addSubcommands(webhook, cli, WEBHOOKS);
}

function webhooksText(terminal: Terminal, page: Page<WebhookDocument>): string {
  return layoutPage(page, "There are no such webhooks; `pawl webhook create` makes one.", [
    ["NAME", ({ name }) => name],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["NOTIFIES OF", ({ notifications }) => notifications.join(", ")],
    ["ASSETS", ({ assets }) => assets.join(", ") || "all"],
    ["FORMAT", formatOf],
    // The path of an address is often a secret.
    ["TO", ({ url = "", email }) => email?.to.join(", ") ?? URL.parse(url)?.host ?? url],
    ["PENDING", ({ deliveries_pending }) => String(deliveries_pending), "right"],
    ["FAILED", ({ deliveries_failed }) => String(deliveries_failed), "right"],
    ["ID", ({ webhook_id }) => shortId(webhook_id)],
  ]);
}

function formatOf({ email, format = "pawl" }: WebhookDocument): string {
  return email === undefined ? format : "e-mail";
}

function secretText({ email, has_secret }: WebhookDocument): string {
  if (email !== undefined) return "none: e-mail is not signed";
  return has_secret ? "there is one" : "none: its notifications are not signed";
}

function webhookText(
  terminal: Terminal,
  webhook: WebhookDocument,
  deliveries: readonly DeliveryDocument[],
): string {
  const fields = layoutFields([
    ["webhook", webhook.name],
    ["id", webhook.webhook_id],
    ["state", `${paintState(terminal, webhook.state)} (version ${webhook.state_version})`],
    ["description", webhook.description ?? null],
    ["to", webhook.email?.to.join(", ") ?? webhook.url ?? null],
    ["notifies of", webhook.notifications.join(", ")],
    ["assets", webhook.assets.join(", ") || "all"],
    ["format", formatOf(webhook)],
    ["subject", webhook.email?.subject ?? null],
    ["template", webhook.template ?? null],
    ["digest", webhook.digest === undefined ? null : "one message for a backfill"],
    ["secret", secretText(webhook)],
    ["deliveries", `${webhook.deliveries_pending} pending, ${webhook.deliveries_failed} failed`],
    ["labels", labelsText(webhook.labels)],
    ["defined by", webhook.origin === "code" ? "code" : "the API"],
    ["created", relativeTime(webhook.created_at, terminal.now())],
  ]);
  if (deliveries.length === 0) return fields;
  return `${fields}\n\n${layoutTable(deliveries, deliveryColumns(terminal))}`;
}

function deliveryColumns(terminal: Terminal): Column<DeliveryDocument>[] {
  const now = terminal.now();
  return [
    ["EVENT", ({ pos }) => String(pos), "right"],
    ["NOTIFIES OF", ({ type }) => type],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["TRIES", ({ attempts }) => String(attempts), "right"],
    ["LAST", ({ last_attempt_at }) => relativeTime(last_attempt_at, now)],
    ["NEXT", ({ next_attempt_at }) => relativeTime(next_attempt_at, now)],
    ["NOTE", ({ last_error }) => last_error ?? ""],
  ];
}
