import { type NOTIFICATIONS, WebhookSpec } from "../work/definition/spec.ts";
import { type AssetReference, assetKeysOf } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/** Something that a webhook can tell of. */
export type NotificationName = (typeof NOTIFICATIONS)[number];

/** Everything that can be said about a webhook. */
export type WebhookOptions = {
  url: string;
  /** What to tell of. */
  on: readonly NotificationName[];
  /** Only outcomes of these assets; all when left out. */
  assets?: AssetReference | readonly AssetReference[];
  enabled?: boolean;
  description?: string;
  labels?: Readonly<Record<string, string>>;
};

const OPTIONS = ["url", "on", "assets", "enabled", "description", "labels"];

/** Defines a webhook: an address that is told of outcomes. */
export function webhook(name: string, options: WebhookOptions): WebhookSpec {
  const subject = `The webhook ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  const spec = withoutUndefined({
    kind: "webhook",
    name,
    description: options.description,
    labels: options.labels,
    enabled: options.enabled,
    url: options.url,
    notifications: options.on,
    assets: options.assets === undefined ? undefined : assetKeysOf(options.assets),
  });
  return Object.freeze(parseDefinition(subject, WebhookSpec, spec));
}
