import type { Command } from "commander";
import { NOTIFICATIONS } from "../../core/automation-specs.ts";
import { UpdateWebhookBody } from "../../core/api/webhook-operations.ts";
import type { PartInput } from "../../core/api/operations.ts";
import { PawlError } from "../../core/errors.ts";
import { changedDefinition, changedText, optionMissing } from "../changed-definition.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { durationOption, labelsOption, repeatedOption } from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { webhookRefOf } from "../short-id.ts";
import { note, print } from "../terminal.ts";
import { versionOption } from "./schedule-define.ts";

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
