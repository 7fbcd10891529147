import type { Command } from "commander";
import { NOTIFICATIONS } from "../../work/definition/automation.ts";
import {
  UpdateWebhookBody,
  type DeliveryDocument,
  type WebhookDocument,
} from "../../work/webhook/api.ts";
import type { PartInput } from "../../work/operations.ts";
import { PawlError } from "../../kernel/errors.ts";
import { changedDefinition, changedText, optionMissing } from "../base/project.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../base/omit-undefined.ts";
import {
  durationOption,
  labelsOption,
  repeatedOption,
  relativeTime,
  integerOption,
  statesOption,
} from "../base/options.ts";
import { withApi, morePagesText, type PageOptions } from "../base/api.ts";
import {
  webhookRefOf,
  note,
  print,
  shortId,
  layoutFields,
  layoutTable,
  paintState,
  type Terminal,
} from "../base/terminal.ts";
import { versionOption } from "./schedule.ts";

type Flags = {
  to?: string;
  on?: readonly string[];
  asset?: readonly string[];
  enabled?: boolean;
  disabled?: boolean;
  label?: Record<string, string>;
  description?: string;
};
type CreateOptions = GlobalOptions & Flags & { requestId?: string };
type UpdateOptions = GlobalOptions & Flags & { expectedStateVersion?: number };
type Definition = Omit<PartInput<"updateWebhook", "body">, "name" | "expected_state_version">;

const ARGUMENT = ["<webhook>", "the webhook's name, its id, or the short form of that"] as const;

/** Adds the commands that make, change and delete webhooks. */
export function addWebhookDefineCommands(webhook: Command, cli: Cli): void {
  addDefinitionOptions(webhook.command("create"))
    .description("create a webhook; the secret it signs with is shown this once")
    .argument("<name>", "what to call it")
    .option("--request-id <text>", "a name for the request; the same name never creates a second")
    .action(act((options: CreateOptions, name: string) => create(cli, options, name)));
  addDefinitionOptions(webhook.command("update"))
    .description("change a webhook; what no option names stays as it is, also its secret")
    .argument(...ARGUMENT)
    .option("--enabled", "let it act again")
    .addOption(versionOption())
    .action(act((options: UpdateOptions, name: string) => update(cli, options, name)));
  webhook
    .command("delete")
    .description("delete a webhook and what it has still to tell")
    .argument(...ARGUMENT)
    .addOption(versionOption())
    .action(
      act(async ({ expectedStateVersion, ...options }: UpdateOptions, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const deleted = await client.call("deleteWebhook", {
            params: { webhook_id: await webhookRefOf(client, name) },
            query: given({ expected_state_version: expectedStateVersion }),
          });
          print(cli.terminal, deleted, () => deleted.message);
        });
      }),
    );
  webhook
    .command("secret")
    .description("make a new secret that a webhook signs with; it is shown this once")
    .argument(...ARGUMENT)
    .addOption(
      durationOption("--overlap <duration>", "how long the one before signs too (default: 24h)"),
    )
    .action(
      act(async ({ overlap, ...options }: GlobalOptions & { overlap?: number }, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { webhook_id: await webhookRefOf(client, name) };
          const seconds = overlap === undefined ? undefined : Math.ceil(overlap / 1_000);
          const body = given({ overlap_seconds: seconds });
          const made = await client.call("createWebhookSecret", { params, body });
          print(cli.terminal, made, () => made.secret);
          note(cli.terminal, "Keep it now: it is not shown again.");
        });
      }),
    );
}

function addDefinitionOptions(command: Command): Command {
  return command
    .option("--to <url>", "the address that is told")
    .addOption(
      repeatedOption("--on <names>", `of what, with commas: all, or ${NOTIFICATIONS.join(", ")}`),
    )
    .addOption(repeatedOption("--asset <key>", "only of this asset; may be repeated; none for any"))
    .option("--disabled", "do not let it act")
    .addOption(labelsOption("--label <key=value>", "a label; may be repeated, and replaces all"))
    .option("--description <text>", "what it is for");
}

function definitionOf(flags: Flags): Partial<Definition> {
  const { enabled, disabled, asset } = flags;
  if (enabled === true && disabled === true) {
    throw new PawlError("INPUT_INVALID", "Expected --enabled or --disabled, got both.");
  }
  const assets = asset === undefined ? undefined : partsOf(asset).filter((key) => key !== "none");
  return given({
    url: flags.to,
    notifications: flags.on === undefined ? undefined : notificationsOf(partsOf(flags.on)),
    assets,
    enabled: enabled === true ? true : disabled === true ? false : undefined,
    labels: flags.label,
    description: flags.description,
  });
}

function partsOf(texts: readonly string[]): string[] {
  return texts.flatMap((text) => text.split(",").map((part) => part.trim()));
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

async function create(cli: Cli, options: CreateOptions, name: string): Promise<void> {
  const { url, notifications, ...rest } = definitionOf(options);
  if (url === undefined) throw optionMissing("--to", "the address to tell");
  if (notifications === undefined)
    throw optionMissing("--on", "what to tell of, such as run.failed");
  await withApi(cli, options, "definitions", async ({ client }) => {
    const created = await client.call("createWebhook", {
      body: { name, url, notifications, ...rest },
      idempotencyKey: options.requestId,
    });
    print(cli.terminal, created, () => {
      const secret =
        created.secret === null
          ? "Its secret was shown before; `pawl webhook secret` makes a new one."
          : `Its secret, which is not shown again: ${created.secret}`;
      // The server says at once when the address is one that is never told.
      return `${created.message}\nIts id: ${created.webhook_id}\n${secret}`;
    });
  });
}

async function update(cli: Cli, options: UpdateOptions, name: string): Promise<void> {
  await withApi(cli, options, "definitions", async ({ client }) => {
    const params = { webhook_id: await webhookRefOf(client, name) };
    const current = await client.call("getWebhook", { params });
    const { expectedStateVersion } = options;
    const body = changedDefinition<Definition>({
      current,
      body: UpdateWebhookBody,
      changes: definitionOf(options),
      example: "--to",
      expectedStateVersion,
    });
    const changed = await client.call("updateWebhook", { params, body });
    print(cli.terminal, changed, () =>
      changed.accepted_event_id === null
        ? changedText("Webhook", changed)
        : `${changed.message}\nIt is at version ${changed.state_version}.`,
    );
  });
}

type ListOptions = PageOptions & { status?: string };

/** Adds the commands that look at webhooks and test them. */
export function addWebhookShowCommands(webhook: Command, cli: Cli): void {
  addPageOptions(webhook.command("list"), "only these, such as paused or deleted")
    .description("list webhooks by name")
    .action(
      act(async ({ status, limit, cursor, ...options }: ListOptions) => {
        const query = given({ status, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listWebhooks", { query });
          print(cli.terminal, page, () => listText(cli.terminal, page));
        });
      }),
    );
  webhook
    .command("show")
    .description("show a webhook and what it has still to tell")
    .argument(...ARGUMENT)
    .action(
      act(async (options: object, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { webhook_id: await webhookRefOf(client, name) };
          const document = await client.call("getWebhook", { params });
          const query = { limit: 10 };
          const { items: deliveries } = await client.call("listDeliveries", { params, query });
          print(cli.terminal, { ...document, deliveries }, () =>
            showText(cli.terminal, document, deliveries),
          );
        });
      }),
    );
  addPageOptions(webhook.command("deliveries"), "only pending, or only failed")
    .description("list what a webhook has still to tell, and what it could not, newest first")
    .argument(...ARGUMENT)
    .action(
      act(async (all: ListOptions & GlobalOptions, name: string) => {
        const { status, limit, cursor, ...options } = all;
        const query = given({ status: status?.toLowerCase(), limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { webhook_id: await webhookRefOf(client, name) };
          const page = await client.call("listDeliveries", { params, query });
          print(cli.terminal, page, () => {
            if (page.items.length === 0) return "There is nothing to tell.";
            return deliveriesText(cli.terminal, page.items) + morePagesText(page.next_cursor);
          });
        });
      }),
    );
  addTest(webhook, cli);
}

function addPageOptions(command: Command, statuses: string): Command {
  return command
    .addOption(statesOption("--status <states>", statuses))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended");
}

function addTest(webhook: Command, cli: Cli): void {
  webhook
    .command("test")
    .description("send a test to a webhook now, and fail when the receiver does not take it")
    .argument(...ARGUMENT)
    .action(
      act(async (options: object, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { webhook_id: await webhookRefOf(client, name) };
          const tested = await client.call("testWebhook", { params });
          if (tested.delivered || cli.terminal.json) {
            print(cli.terminal, tested, () => tested.message);
          }
          if (tested.delivered) return;
          throw new PawlError("WEBHOOK_FAILED", tested.message, { details: { webhook: name } });
        });
      }),
    );
}

function listText(
  terminal: Terminal,
  page: { items: readonly WebhookDocument[]; next_cursor: string | null },
): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0)
    return `There are no such webhooks; \`pawl webhook create\` makes one.${more}`;
  const table = layoutTable(
    [
      { heading: "NAME" },
      { heading: "STATE" },
      { heading: "TELLS OF" },
      { heading: "ASSETS" },
      { heading: "TO" },
      { heading: "PENDING", align: "right" },
      { heading: "FAILED", align: "right" },
      { heading: "ID" },
    ],
    page.items.map((webhook) => [
      webhook.name,
      paintState(terminal, webhook.state),
      webhook.notifications.join(", "),
      webhook.assets.length === 0 ? "any" : webhook.assets.join(", "),
      // The path of an address is often a secret.
      URL.parse(webhook.url)?.host ?? webhook.url,
      String(webhook.deliveries_pending),
      String(webhook.deliveries_failed),
      shortId(webhook.webhook_id),
    ]),
  );
  return table + more;
}

function showText(
  terminal: Terminal,
  webhook: WebhookDocument,
  deliveries: readonly DeliveryDocument[],
): string {
  const labels = Object.entries(webhook.labels).map(([key, value]) => `${key}=${value}`);
  const fields: [string, string | null][] = [
    ["webhook", webhook.name],
    ["id", webhook.webhook_id],
    ["state", `${paintState(terminal, webhook.state)} (version ${webhook.state_version})`],
    ["description", webhook.description ?? null],
    ["to", webhook.url],
    ["tells of", webhook.notifications.join(", ")],
    ["assets", webhook.assets.length === 0 ? "any" : webhook.assets.join(", ")],
    ["secret", webhook.has_secret ? "there is one" : "none: what it tells is not signed"],
    ["deliveries", `${webhook.deliveries_pending} pending, ${webhook.deliveries_failed} failed`],
    ["labels", labels.join(", ") || null],
    ["defined by", webhook.origin === "code" ? "code" : "the API"],
    ["created", relativeTime(webhook.created_at, terminal.now())],
  ];
  const told = fields.flatMap(([name, text]): [string, string][] =>
    text === null ? [] : [[name, text]],
  );
  const table = deliveries.length === 0 ? "" : `\n\n${deliveriesText(terminal, deliveries)}`;
  return layoutFields(told) + table;
}

function deliveriesText(terminal: Terminal, deliveries: readonly DeliveryDocument[]): string {
  const now = terminal.now();
  return layoutTable(
    [
      { heading: "EVENT", align: "right" },
      { heading: "TELLS OF" },
      { heading: "STATUS" },
      { heading: "TRIES", align: "right" },
      { heading: "LAST" },
      { heading: "NEXT" },
      { heading: "NOTE" },
    ],
    deliveries.map((delivery) => [
      String(delivery.pos),
      delivery.type,
      paintState(terminal, delivery.status),
      String(delivery.attempts),
      relativeTime(delivery.last_attempt_at, now),
      relativeTime(delivery.next_attempt_at, now),
      delivery.last_error ?? "",
    ]),
  );
}
