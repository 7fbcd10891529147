import type { Command } from "commander";
import type { DeliveryDocument, WebhookDocument } from "../../core/api/webhook-documents.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { relativeTime } from "../duration.ts";
import { given } from "../given.ts";
import { integerOption, statesOption } from "../option-values.ts";
import { morePagesText, type PageOptions } from "../page-options.ts";
import { withApi } from "../reach-api.ts";
import { shortId, webhookRefOf } from "../short-id.ts";
import { layoutFields, layoutTable } from "../table.ts";
import { paintState, print, type Terminal } from "../terminal.ts";

const ARGUMENT = ["<webhook>", "the webhook's name, its id, or the short form of that"] as const;

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
