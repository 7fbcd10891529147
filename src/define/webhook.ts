import {
  type NOTIFICATIONS,
  type WEBHOOK_DIGESTS,
  type WEBHOOK_FORMATS,
  WebhookSpec,
} from "../work/definition/spec.ts";
import { type AssetReference, assetKeysOf } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/** Something that a webhook can tell of. */
export type NotificationName = (typeof NOTIFICATIONS)[number];

/** Whom a webhook tells: an address that it posts to, or people to whom it sends e-mail. */
type WebhookReceiver =
  | { url: string; email?: undefined }
  | {
      url?: undefined;
      /** Sent by the SMTP server of the configuration; the subject may have `{{names}}` in it. */
      email: { to: string | readonly string[]; subject?: string };
      format?: undefined;
    };

/** Everything that can be said about a webhook. */
export type WebhookOptions = WebhookReceiver & {
  /** What to tell of. */
  on: readonly NotificationName[];
  /** Only outcomes of these assets; all when left out. */
  assets?: AssetReference | readonly AssetReference[];
  /** How messages are written: `pawl` (the default), or as Slack, Teams or Discord show them. */
  format?: (typeof WEBHOOK_FORMATS)[number];
  /** The text of a message: `"{{title}}: {{error.message}}"`. */
  template?: string;
  /** `"backfill"`: one message for a backfill, with what failed in it, and none for its runs. */
  digest?: (typeof WEBHOOK_DIGESTS)[number];
  enabled?: boolean;
  description?: string;
  labels?: Readonly<Record<string, string>>;
};

const OPTIONS = [
  "url",
  "email",
  "on",
  "assets",
  "format",
  "template",
  "digest",
  "enabled",
  "description",
  "labels",
];

/** Defines a webhook: an address, or people by e-mail, that are told of outcomes. */
export function webhook(name: string, options: WebhookOptions): WebhookSpec {
  const subject = `The webhook ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  const { email } = options;
  const spec = withoutUndefined({
    kind: "webhook",
    name,
    description: options.description,
    labels: options.labels,
    enabled: options.enabled,
    url: options.url,
    // Anything but an object is refused with the rest, by its path.
    email: typeof email === "object" ? emailOf(subject, email) : email,
    notifications: options.on,
    assets: options.assets === undefined ? undefined : assetKeysOf(options.assets),
    format: options.format,
    template: options.template,
    digest: options.digest,
  });
  return Object.freeze(parseDefinition(subject, WebhookSpec, spec));
}

function emailOf(owner: string, email: NonNullable<WebhookOptions["email"]>): object {
  refuseUnknownOptions(`${owner}, email,`, email, ["to", "subject"]);
  const { to, subject } = email;
  return withoutUndefined({ to: typeof to === "string" ? [to] : to, subject });
}
