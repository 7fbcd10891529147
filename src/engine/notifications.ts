import { setImmediate as turnOfOthers } from "node:timers/promises";
import type { WebhookSpec } from "../work/definition/spec.ts";
import { SPECS } from "../work/definition/rows.ts";
import { type WebhookRow, WEBHOOKS } from "../work/sensor/rows.ts";
import type { NewProbe, Probe, Reader, Store } from "../store/store.ts";
import { z } from "zod";
import type { Json } from "../kernel/canonical.ts";
import { Count, InstantText, type RecordedEvent } from "../work/envelope.ts";
import { addMs, type Instant } from "../kernel/instant.ts";
import { NotificationBody } from "../work/webhook/message.ts";
import {
  isOfBackfillRun,
  type Notification,
  notificationsOf,
  notificationTypeOf,
  NOTIFIED_EVENTS,
} from "../work/webhook/notification.ts";
import type { Engine } from "./engine.ts";
import { firstFailures } from "./first-failures.ts";

/** Most webhooks that are told of anything. */
const WEBHOOKS_MAX = 1_000;

/** A webhook that acts, with its definition. */
export type ActiveWebhook = { row: WebhookRow; spec: WebhookSpec };

/** All webhooks that act. */
export async function activeWebhooks(reader: Reader): Promise<ActiveWebhook[]> {
  const rows = await reader.find({
    table: WEBHOOKS,
    where: [{ cell: "state", is: "=", value: "ACTIVE" }],
    order: [{ cell: "webhook_id" }],
    limit: WEBHOOKS_MAX,
  });
  if (rows.length === 0) return [];
  return withSpecs(reader, rows);
}

/** One webhook, if it acts. */
export async function activeWebhook(reader: Reader, id: string): Promise<ActiveWebhook | null> {
  const [row] = await reader.load(WEBHOOKS, [[id]]);
  if (row?.state !== "ACTIVE") return null;
  return (await withSpecs(reader, [row]))[0] ?? null;
}

async function withSpecs(reader: Reader, rows: readonly WebhookRow[]): Promise<ActiveWebhook[]> {
  const keys = [...new Set(rows.map(({ spec_hash }) => spec_hash))].map((hash) => [hash]);
  const specs = await reader.load(SPECS, keys);
  const specOf = new Map(specs.map(({ spec_hash, body }) => [spec_hash, body]));
  return rows.flatMap((row) => {
    const spec = specOf.get(row.spec_hash);
    return spec?.kind === "webhook" ? [{ row, spec }] : [];
  });
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** The pause after each attempt that failed; one attempt more than there are pauses. */
const RETRY_DELAYS_MS = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
  8 * HOUR_MS,
  16 * HOUR_MS,
  24 * HOUR_MS,
];

/** How long a notification is tried for. */
const TRIED_MS_MAX = 72 * HOUR_MS;
/** How long one that could not be told is kept to be looked at. */
const FAILED_KEPT_MS = 7 * 24 * HOUR_MS;
/** How far a pause may be from what it should be, so that many do not come back at once. */
const JITTER = 0.2;

/** What the probe of a notification remembers: what to tell, and how that went so far. */
export const Delivery = z.object({
  pos: Count,
  type: z.string(),
  body: NotificationBody,
  created_at: InstantText,
  attempts: Count,
  last_attempt_at: InstantText.nullable(),
  last_status: z.int().nullable(),
  last_error: z.string().nullable(),
  /** Recipients of an e-mail who have it, after an attempt that not all took. */
  accepted_by: z.array(z.string()).default([]),
  /** When it was given up; then it is due when it is to be forgotten. */
  failed_at: InstantText.nullable(),
});
export type Delivery = z.infer<typeof Delivery>;

/** The delivery that a probe's value is; null when it is none. */
export function deliveryOf(value: Json): Delivery | null {
  return Delivery.safeParse(value).data ?? null;
}

/** Deliveries that are read at once: each may have 10 kB. */
const DELIVERIES_AT_ONCE = 500;

/** What a webhook, or every one, has still to tell and what it could not, up to so much, part by part. */
export async function* deliveryParts(
  reader: Reader,
  webhookId: string | null,
  most: number,
): AsyncGenerator<{ probe: Probe; delivery: Delivery }[]> {
  let last: Probe | null = null;
  for (let left = most; left > 0; left -= DELIVERIES_AT_ONCE) {
    const limit = Math.min(left, DELIVERIES_AT_ONCE);
    const probes: Probe[] = await reader.probesOf("notification", webhookId, limit, last);
    yield probes.flatMap((probe) => {
      const delivery = deliveryOf(probe.value);
      return delivery === null ? [] : [{ probe, delivery }];
    });
    if (probes.length < limit) return;
    last = probes.at(-1) ?? null;
    await turnOfOthers();
  }
}

/** The probe of what a webhook tells of an event: one for ever, however often the event is read. */
export function deliveryProbeId(webhookId: string, pos: number): string {
  return `notification:${webhookId}:${pos}`;
}

/** The `webhook-id` of a delivery, the same on every attempt. */
export function deliveryIdOf(webhookId: string, pos: number): string {
  return `${webhookId}:${pos}`;
}

/** How an attempt went: a status, or an error when no answer came. */
export type Attempt = {
  status: number | null;
  error: string | null;
  /** Whether another attempt would be refused too. */
  isFinal: boolean;
  /** Recipients of an e-mail who have it by now. */
  acceptedBy?: readonly string[];
};

/** Whether the receiver took what it was told. */
export function isTaken({ status }: Pick<Attempt, "status">): boolean {
  return status !== null && status >= 200 && status < 300;
}

/**
 * A delivery after an attempt that the receiver did not take, and when it is due: to be tried
 * again, or once it was given up, to be forgotten.
 */
export function afterAttempt(
  delivery: Delivery,
  { status, error, isFinal, acceptedBy = [] }: Attempt,
  now: Instant,
  random: number,
): { value: Delivery; due_at: Instant } {
  const attempts = delivery.attempts + 1;
  const tried: Delivery = {
    ...delivery,
    attempts,
    last_attempt_at: now,
    last_status: status,
    last_error: error,
    accepted_by: [...acceptedBy],
  };
  const delayMs = RETRY_DELAYS_MS[attempts - 1];
  if (delayMs !== undefined && !isFinal) {
    const due_at = addMs(now, Math.round(delayMs * (1 - JITTER + 2 * JITTER * random)));
    if (due_at <= addMs(delivery.created_at, TRIED_MS_MAX)) return { value: tried, due_at };
  }
  return { value: { ...tried, failed_at: now }, due_at: addMs(now, FAILED_KEPT_MS) };
}

/** The subject of the row that says how far the ledger was read. */
export const LEDGER_SUBJECT = "ledger";
const PLACE_ID = "notification:ledger";

/** Events that one read brings. */
const PAGE = 500;
/** Events whose notifications are made at once, and notifications that one write makes: each may have 10 kB. */
const EVENTS_AT_ONCE = 50;
const PROBES_AT_ONCE = 500;
/** Notifications after which a page ends, so that its place is not lost while it is written. */
const PAGE_PROBES_MAX = 10_000;
/** How long reading a page and writing what it comes to may take. */
const PLACE_TTL_MS = 30_000;
/** Positions without anything to tell after which the place is saved all the same. */
const SAVE_EVERY = 10_000;

/** Events that were read, up to where the ledger was, and who may want to know of them. */
type LedgerPage = {
  events: readonly RecordedEvent[];
  isLast: boolean;
  through: number;
  webhooks: readonly ActiveWebhook[];
};

/**
 * Follows the ledger and makes a probe for everything that a webhook wants to be told of. How far
 * it got is a row of its own, there as long as a webhook acts: so nothing is missed by a restart,
 * several servers share the work, and without webhooks there is none.
 *
 * The place moves after the probes are durable, and nothing is sent from beyond the place: reading
 * a page again, after a crash in between, then finds the probes still there.
 */
export class NotificationFollower {
  readonly #store: Store;
  readonly #engine: Engine;
  #webhooks: readonly ActiveWebhook[] = [];
  /** Up to where there is certainly nothing to tell; null when the place is to be looked up. */
  #seen: number | null = null;
  /** Where the place was when this server last moved it. */
  #saved: number | null = null;
  /** Where to begin when there is no place: where the first webhook was made. */
  #beginAt: number | null = null;
  #isStale = true;

  constructor(store: Store, engine: Engine) {
    this.#store = store;
    this.#engine = engine;
  }

  /** The webhooks that act, as last seen. */
  get webhooks(): readonly ActiveWebhook[] {
    return this.#webhooks;
  }

  /** Whether the webhooks are to be looked up anew. */
  get isStale(): boolean {
    return this.#isStale;
  }

  /** Has the webhooks looked up anew at the next step. */
  refresh(): void {
    this.#isStale = true;
  }

  /** Notes what this server committed; answers whether a step is worth it. */
  committed(events: readonly RecordedEvent[]): boolean {
    const [first] = events;
    const last = events.at(-1);
    if (first === undefined || last === undefined) return false;
    const published = events.find(({ type }) => type === "DefinitionsPublished");
    if (published !== undefined) {
      if (this.#webhooks.length === 0) this.#beginAt ??= published.pos;
      this.#isStale = true;
      return true;
    }
    if (this.#webhooks.length === 0) return false;
    if (events.some((event) => this.#isWanted(event))) return true;
    if (this.#seen === first.pos - 1) this.#seen = last.pos;
    return false;
  }

  /** Whether something was appended that has not been looked at. */
  isBehind(pos: number): boolean {
    return this.#webhooks.length > 0 && (this.#seen === null || pos > this.#seen);
  }

  /** Reads on in the ledger; answers `busy` when another server is at it. */
  async step(): Promise<"done" | "busy"> {
    if (this.#isStale) await this.#lookUp();
    if (this.#webhooks.length === 0) return "done";
    const { pos, isQuiet } = await this.#read(async (reader) => {
      const { pos: head } = await reader.head();
      const seen = this.#seen ?? (await placeOf(reader));
      if (seen === null) return { pos: head, isQuiet: false };
      this.#seen = seen;
      const found = await reader.events({ after: seen, types: NOTIFIED_EVENTS, limit: PAGE });
      const hasWanted = found.some((event) => this.#isWanted(event));
      return { pos: head, isQuiet: found.length < PAGE && !hasWanted };
    });
    if (isQuiet && pos - (this.#saved ?? 0) < SAVE_EVERY) {
      this.#seen = pos;
      return "done";
    }
    return this.#take();
  }

  /** Whether a webhook that acts may want to know, as far as the event itself says. */
  #isWanted(event: RecordedEvent): boolean {
    const type = notificationTypeOf(event);
    if (type === null) return false;
    const wanting = this.#webhooks.filter(({ spec }) => spec.notifications.includes(type));
    return wanting.some(({ spec }) => !isLeftOut(spec, event));
  }

  async #lookUp(): Promise<void> {
    this.#isStale = false;
    const { webhooks, place } = await this.#read(async (reader) => ({
      webhooks: await activeWebhooks(reader),
      place: await placeOf(reader),
    }));
    this.#adopt(webhooks);
    if (webhooks.length > 0) return;
    // One that was made while we looked is found next time, and begins where it was made.
    if (!this.#isStale) this.#beginAt = null;
    this.#seen = null;
    this.#saved = null;
    // What happens while nobody wants to know is not told later.
    if (place !== null) {
      await this.#store.removeProbes(this.#ws, ["notification"], LEDGER_SUBJECT);
    }
  }

  /**
   * Takes the webhooks as they are now. What was passed over since one of them was changed may be
   * wanted by now; what was passed over before that was wanted by nobody, and stays so.
   */
  #adopt(webhooks: readonly ActiveWebhook[]): void {
    const known = new Set(this.#webhooks.map(versionOf));
    for (const webhook of webhooks) {
      if (this.#seen === null || known.has(versionOf(webhook))) continue;
      this.#seen = Math.min(this.#seen, webhook.row.row_version);
    }
    this.#webhooks = webhooks;
  }

  /** Turns the events after the place into probes, page by page, and moves the place. */
  async #take(): Promise<"done" | "busy"> {
    for (;;) {
      const now = await this.#store.now();
      const held = await this.#holdPlace(now);
      if (held === null) return "busy";
      const { attempt } = held;
      const page = await this.#read((reader) => this.#page(reader, held.pos));
      const { through, isLast } = await this.#addProbes(page, now);
      const value = { pos: through };
      const [isKept] = await this.#store.settleProbes(this.#ws, [
        { probe_id: PLACE_ID, attempt, due_at: now, value },
      ]);
      this.#seen = isKept === true ? through : null;
      this.#saved = through;
      if (isKept !== true) return "busy";
      if (page.webhooks.length === 0) await this.#lookUp();
      if (isLast || page.webhooks.length === 0) return "done";
    }
  }

  async #holdPlace(now: Instant): Promise<{ pos: number; attempt: number } | null> {
    const place = await this.#read(placeOf);
    if (place === null) {
      const begin = this.#beginAt ?? this.#saved;
      const pos = begin ?? (await this.#read((reader) => reader.head())).pos;
      const subject = LEDGER_SUBJECT;
      await this.#store.addProbes(this.#ws, [
        { probe_id: PLACE_ID, kind: "notification", subject, due_at: now, value: { pos } },
      ]);
    }
    this.#beginAt = null;
    const [probe] = await this.#store.leaseProbes(this.#ws, {
      kinds: ["notification"],
      subjects: [LEDGER_SUBJECT],
      limit: 1,
      ttlMs: PLACE_TTL_MS,
      holder: null,
    });
    const pos = probe === undefined ? null : posOf(probe.value);
    return probe === undefined || pos === null ? null : { pos, attempt: probe.attempt };
  }

  /** Makes the probes of a page, or of its first events; answers how far it got. */
  async #addProbes(page: LedgerPage, now: Instant): Promise<{ through: number; isLast: boolean }> {
    const { events, webhooks, through, isLast } = page;
    let made = 0;
    for (let at = 0; at < events.length; at += EVENTS_AT_ONCE) {
      const before = events[at - 1];
      if (made >= PAGE_PROBES_MAX && before !== undefined) {
        return { through: before.pos, isLast: false };
      }
      const some = events.slice(at, at + EVENTS_AT_ONCE);
      const probes = await this.#probesOf(some, webhooks, now);
      for (let from = 0; from < probes.length; from += PROBES_AT_ONCE) {
        // Between two writes only: what is noted waits for the place, which comes right after the last.
        if (made > 0) await turnOfOthers();
        const part = probes.slice(from, from + PROBES_AT_ONCE);
        await this.#store.addProbes(this.#ws, part);
        made += part.length;
      }
    }
    return { through, isLast };
  }

  async #page(reader: Reader, place: number): Promise<LedgerPage> {
    const { pos: head } = await reader.head();
    const webhooks = await activeWebhooks(reader);
    this.#adopt(webhooks);
    const after = Math.max(place, this.#seen ?? 0);
    const events = await reader.events({ after, types: NOTIFIED_EVENTS, limit: PAGE });
    const isLast = events.length < PAGE;
    const through = isLast ? head : (events.at(-1)?.pos ?? head);
    return { events, isLast, through, webhooks };
  }

  async #probesOf(
    events: readonly RecordedEvent[],
    webhooks: readonly ActiveWebhook[],
    now: Instant,
  ): Promise<NewProbe[]> {
    if (webhooks.length === 0 || events.length === 0) return [];
    const { result } = await this.#engine.evaluate((rows) => ({
      events: [],
      result: notificationsOf(rows, events),
    }));
    const probes: NewProbe[] = [];
    for (const [index, event] of events.entries()) {
      const told = result[index] ?? null;
      if (told === null) continue;
      const wanting = webhooks.filter((webhook) => isWanted(webhook, told, event));
      const digest = wanting.some(isDigest) ? await this.#digestOf(told) : told;
      for (const webhook of wanting) {
        const own = isDigest(webhook) ? digest : told;
        probes.push(probeOf(webhook.row.webhook_id, own, event.pos, now));
      }
    }
    return probes;
  }

  /** The end or the pause of a backfill with the first that failed in it; all else as it is. */
  async #digestOf(told: Notification): Promise<Notification> {
    const id = told.data["backfill_id"];
    if (!told.type.startsWith("backfill.") || typeof id !== "string") return told;
    const failures = await this.#read((reader) => firstFailures(reader, id));
    return { ...told, data: { ...told.data, failures } };
  }

  get #ws(): number {
    return this.#engine.workspace.ws;
  }

  #read<Result>(body: (reader: Reader) => Promise<Result>): Promise<Result> {
    return this.#store.read(this.#ws, body);
  }
}

function versionOf({ row }: ActiveWebhook): string {
  return `${row.webhook_id} ${row.row_version}`;
}

/** How far the ledger was read; null when nobody reads it. */
export async function placeOf(reader: Reader): Promise<number | null> {
  const [probe] = await reader.probes([PLACE_ID]);
  return probe === undefined ? null : posOf(probe.value);
}

function posOf(value: Json): number | null {
  return z.object({ pos: Count }).safeParse(value).data?.pos ?? null;
}

function isDigest({ spec }: ActiveWebhook): boolean {
  return spec.digest === "backfill";
}

/** Whether a webhook is told of the event with others, as one. */
function isLeftOut({ digest }: WebhookSpec, event: RecordedEvent): boolean {
  return digest === "backfill" && isOfBackfillRun(event);
}

/** What happened before a webhook was made is none of its business. */
function isWanted(webhook: ActiveWebhook, told: Notification, event: RecordedEvent): boolean {
  const { row, spec } = webhook;
  if (event.pos <= row.created_pos || !spec.notifications.includes(told.type)) return false;
  if (isLeftOut(spec, event)) return false;
  return spec.assets.length === 0 || told.assets.some((asset) => spec.assets.includes(asset));
}

function probeOf(webhookId: string, told: Notification, pos: number, now: Instant): NewProbe {
  const { type, timestamp, data } = told;
  const value: Delivery = {
    pos,
    type,
    body: { type, timestamp, data },
    created_at: now,
    attempts: 0,
    last_attempt_at: null,
    last_status: null,
    last_error: null,
    accepted_by: [],
    failed_at: null,
  };
  const probe_id = deliveryProbeId(webhookId, pos);
  return { probe_id, kind: "notification", subject: webhookId, due_at: now, value };
}
