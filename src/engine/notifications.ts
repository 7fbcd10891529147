import { z } from "zod";
import {
  type Notification,
  notificationsOf,
  notificationTypeOf,
  NOTIFIED_EVENTS,
} from "../controllers/notification-of-event.ts";
import type { Json } from "../core/canonical.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import { Count } from "../core/events/fields.ts";
import type { Instant } from "../core/instant.ts";
import type { NewProbe, Reader, Store } from "../store/store.ts";
import { type ActiveWebhook, activeWebhooks } from "./active-webhooks.ts";
import { type Delivery, deliveryProbeId } from "./delivery.ts";
import type { Engine } from "./engine.ts";

/** The subject of the row that says how far the ledger was read. */
export const LEDGER_SUBJECT = "ledger";
const PLACE_ID = "notification:ledger";

/** Events that one read brings. */
const PAGE = 500;
/** How long reading a page and writing what it comes to may take. */
const PLACE_TTL_MS = 30_000;
/** Positions without anything to tell after which the place is saved all the same. */
const SAVE_EVERY = 10_000;

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
    return type !== null && this.#webhooks.some(({ spec }) => spec.notifications.includes(type));
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
      const probes = await this.#probesOf(page.events, page.webhooks, now);
      if (probes.length > 0) await this.#store.addProbes(this.#ws, probes);
      const value = { pos: page.through };
      const [isKept] = await this.#store.settleProbes(this.#ws, [
        { probe_id: PLACE_ID, attempt, due_at: now, value },
      ]);
      this.#seen = isKept === true ? page.through : null;
      this.#saved = page.through;
      if (isKept !== true) return "busy";
      if (page.webhooks.length === 0) await this.#lookUp();
      if (page.isLast || page.webhooks.length === 0) return "done";
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

  async #page(reader: Reader, place: number) {
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
    return events.flatMap(({ pos }, index) => {
      const told = result[index] ?? null;
      if (told === null) return [];
      const wanting = webhooks.filter((webhook) => isWanted(webhook, told, pos));
      return wanting.map(({ row }) => probeOf(row.webhook_id, told, pos, now));
    });
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

/** What happened before a webhook was made is none of its business. */
function isWanted({ row, spec }: ActiveWebhook, told: Notification, pos: number): boolean {
  if (pos <= row.created_pos || !spec.notifications.includes(told.type)) return false;
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
    failed_at: null,
  };
  const probe_id = deliveryProbeId(webhookId, pos);
  return { probe_id, kind: "notification", subject: webhookId, due_at: now, value };
}
