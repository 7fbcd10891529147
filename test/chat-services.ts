import { z } from "zod";

// What chat services document about the messages that they take: the shapes that we use, with their
// limits. A field that they would refuse, or that we do not use, is refused here too.

const mrkdwn = (max: number) =>
  z.strictObject({ type: z.literal("mrkdwn"), text: z.string().min(1).max(max) });

const SlackBlock = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("header"),
    text: z.strictObject({
      type: z.literal("plain_text"),
      text: z.string().min(1).max(150),
      emoji: z.boolean(),
    }),
  }),
  z.strictObject({
    type: z.literal("section"),
    text: mrkdwn(3_000).optional(),
    fields: z.array(mrkdwn(2_000)).min(1).max(10).optional(),
  }),
]);

/** What an incoming webhook of Slack takes; all its blocks together have 13,000 characters of room. */
export const SlackMessage = z.strictObject({
  text: z.string().min(1).max(4_000),
  blocks: z
    .array(SlackBlock)
    .min(1)
    .max(50)
    .refine((blocks) => JSON.stringify(blocks).length <= 13_000 * 2)
    .optional(),
});

const TextRun = z.strictObject({
  type: z.literal("TextRun"),
  text: z.string().min(1),
  weight: z.enum(["Bolder"]).optional(),
  size: z.enum(["Large"]).optional(),
  color: z.enum(["Good", "Warning", "Attention"]).optional(),
});

/** What the workflow "when a Teams webhook request is received" takes: one card, 28 KB in all. */
export const TeamsMessage = z
  .strictObject({
    type: z.literal("message"),
    attachments: z.tuple([
      z.strictObject({
        contentType: z.literal("application/vnd.microsoft.card.adaptive"),
        contentUrl: z.null(),
        content: z.strictObject({
          $schema: z.url(),
          type: z.literal("AdaptiveCard"),
          version: z.literal("1.4"),
          msteams: z.strictObject({ width: z.literal("Full") }),
          body: z
            .array(
              z.strictObject({
                type: z.literal("RichTextBlock"),
                inlines: z.array(TextRun).min(1),
              }),
            )
            .min(1),
          actions: z
            .array(
              z.strictObject({
                type: z.literal("Action.OpenUrl"),
                title: z.string().min(1),
                url: z.url(),
              }),
            )
            .optional(),
        }),
      }),
    ]),
  })
  .refine((message) => Buffer.byteLength(JSON.stringify(message)) <= 28 * 1_024);

const DiscordEmbed = z
  .strictObject({
    title: z.string().min(1).max(256),
    url: z.url().optional(),
    description: z.string().min(1).max(4_096).optional(),
    color: z.int().min(0).max(0xffffff),
    timestamp: z.iso.datetime(),
    fields: z
      .array(
        z.strictObject({
          name: z.string().min(1).max(256),
          value: z.string().min(1).max(1_024),
          inline: z.boolean(),
        }),
      )
      .max(25),
  })
  .refine(({ title, description = "", fields }) => {
    const length = fields.reduce((sum, { name, value }) => sum + name.length + value.length, 0);
    return title.length + description.length + length <= 6_000;
  });

/** What a webhook of Discord takes: content or embeds, and whom the message may call. */
export const DiscordMessage = z
  .strictObject({
    content: z.string().min(1).max(2_000).optional(),
    embeds: z.array(DiscordEmbed).min(1).max(10).optional(),
    allowed_mentions: z.strictObject({
      parse: z.array(z.enum(["everyone", "roles", "users"])),
      roles: z.array(z.string().regex(/^\d+$/)).max(100).optional(),
      users: z.array(z.string().regex(/^\d+$/)).max(100).optional(),
    }),
  })
  .refine(({ content, embeds }) => content !== undefined || embeds !== undefined);
