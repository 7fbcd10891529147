import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { epochMsOf, type Instant, addMs, msBetween } from "../../kernel/instant.ts";
import {
  type Attempt,
  activeWebhook,
  afterAttempt,
  type Delivery,
  deliveryIdOf,
  deliveryOf,
  isTaken,
  LEDGER_SUBJECT,
  NotificationFollower,
  placeOf,
} from "../../engine/notifications.ts";
import { emailSettingsFault, sendEmail } from "./email.ts";
import { receiverFault, sendWebhook } from "./send.ts";
import { signWebhook, liveSecrets } from "./signing.ts";
import { WEBHOOKS } from "../../work/sensor/rows.ts";
import {
  emailMessage,
  messageBody,
  type NotificationBody,
  pagePathOf,
} from "../../work/webhook/message.ts";
import type { WebhookSpec } from "../../work/definition/spec.ts";
import { type Config, type MailSettings, mailSettingsOf } from "../../engine/config.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Probe, Store } from "../../store/store.ts";

/** How long a receiver may take to answer. */
const TIMEOUT_MS = 15_000;

/** What the operator lets webhooks be told through. */
export type Outlets = {
  /** `host` or `host:port` of receivers that may have an address that is not public. */
  allowedHosts: readonly string[];
  /** The SMTP server that sends e-mail; null when there is none. */
  mail: MailSettings | null;
};

/** What a configuration lets webhooks be told through. */
export function outletsOf(config: Config): Outlets {
  return { allowedHosts: config.webhook_hosts, mail: mailSettingsOf(config) };
}

/** Why a webhook would never be told: WEBHOOK_REFUSED. Null when it would be, as far as is known. */
export async function webhookFault(
  { url, email }: Pick<WebhookSpec, "url" | "email">,
  { allowedHosts, mail }: Outlets,
): Promise<PawlError | null> {
  if (email !== undefined) return emailSettingsFault(mail);
  return url === undefined ? null : receiverFault(url, allowedHosts);
}

/** Something to be told to the receiver of a webhook. */
export type OutgoingNotification = {
  spec: Pick<WebhookSpec, "url" | "email" | "format" | "template">;
  /** The same on every attempt. */
  id: string;
  body: NotificationBody;
  /** To the page of what it is about; null when none can be given. */
  link: string | null;
  /** All that are good now, so that a receiver may know either while one takes over. */
  secrets: readonly string[];
  /** Recipients of an e-mail who have it already. */
  acceptedBy?: readonly string[];
  outlets: Outlets;
  now: Instant;
  signal?: AbortSignal;
};

/** How an attempt went, how long it took, and what was sent. */
type Sent = Attempt & { durationMs: number; sent: Json };

/** Tells the receiver once, and says how that went; it never throws for what the receiver does. */
export async function sendNotification(outgoing: OutgoingNotification): Promise<Sent> {
  const { spec, id, link, outlets, now, signal, acceptedBy = [] } = outgoing;
  const sent = messageBody(outgoing.body, spec, link);
  const message = emailMessage(outgoing.body, spec, link);
  if (message === null) return { ...(await post(outgoing, sent)), sent };
  const startedMs = performance.now();
  const attempt = await sendEmail({
    message,
    id,
    acceptedBy,
    settings: outlets.mail,
    sentAt: new Date(epochMsOf(now)),
    ...(signal === undefined ? {} : { signal }),
  });
  return { ...attempt, durationMs: Math.round(performance.now() - startedMs), sent };
}

async function post(
  outgoing: OutgoingNotification,
  sent: Json,
): Promise<Attempt & { durationMs: number }> {
  const { spec, id, outlets, secrets, signal } = outgoing;
  const { url = "" } = spec;
  const body = new TextEncoder().encode(canonicalJson(sent));
  const timestampSeconds = Math.floor(epochMsOf(outgoing.now) / 1_000);
  const signatures = secrets.map((secret) => signWebhook({ id, timestampSeconds, body, secret }));
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "pawl",
    "webhook-id": id,
    "webhook-timestamp": `${timestampSeconds}`,
    ...(signatures.length === 0 ? {} : { "webhook-signature": signatures.join(" ") }),
  };
  const startedMs = performance.now();
  try {
    const { status, durationMs } = await sendWebhook({
      url,
      body,
      headers,
      timeoutMs: TIMEOUT_MS,
      allowedHosts: outlets.allowedHosts,
      ...(signal === undefined ? {} : { signal }),
    });
    const error = isTaken({ status }) ? null : `The receiver answered ${status}.`;
    // 410 says that nobody is there any more.
    return { status, error, isFinal: status === 410, durationMs };
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    const durationMs = Math.round(performance.now() - startedMs);
    return { status: null, error: error.message, isFinal: false, durationMs };
  }
}

/** Receivers that are told at once: of one webhook, and in all. */
const AT_ONCE_PER_WEBHOOK = 4;
const AT_ONCE = 16;
/** Longer than an attempt can take. */
const LEASE_MS = 60_000;
/** Probes of a webhook that a look goes through for the one due next. */
const LOOKED_AT = 32;
/** The pause before what another server appended is looked at, so that much is read at once. */
const NEWS_MS = 100;
/** How often it is looked whether there are webhooks, and deliveries of other servers' making. */
const SWEEP_MS = 30_000;
/** The pause after a step that failed, or while another server is at it. */
const RETRY_MS = 1_000;
/** How long a stop waits for answers of receivers. */
const STOP_MS = 5_000;
/** Subjects of probes that a sweep goes through for webhooks that are gone. */
const SWEPT_MAX = 1_000;

/** What became of attempts to tell, since the server started. */
export type DeliveryCounts = { succeeded: number; retried: number; failed: number };

/** How notifications are sent. */
export type NotificationOptions = {
  store: Store;
  engine: Engine;
  outlets: Outlets;
  warn(fields: object, message: string): void;
};

/**
 * Tells the webhooks of a workspace what they want to know: follows the ledger, and sends what
 * waits, a bounded number at once, so that a slow receiver holds up nobody else. What was sent is
 * settled right after; only a process that dies in between sends again.
 */
export class NotificationSender {
  readonly engine: Engine;
  readonly counts: DeliveryCounts = { succeeded: 0, retried: 0, failed: 0 };
  readonly #options: NotificationOptions;
  readonly #follower: NotificationFollower;
  readonly #sending = new Map<string, number>();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  /** Where people reach the page; null where no link to it can be given. */
  #pageUrl: string | null = null;
  #isStarted = false;
  #stopped = false;
  #working: Promise<void> | null = null;
  #isDue = false;
  #timer: NodeJS.Timeout | null = null;
  #sweep: NodeJS.Timeout | null = null;
  #news: NodeJS.Timeout | null = null;
  #unsubscribe: (() => void) | null = null;
  #turn = 0;

  constructor(options: NotificationOptions) {
    this.#options = options;
    this.engine = options.engine;
    this.#follower = new NotificationFollower(options.store, options.engine);
  }

  /** Begins to act by itself; links in messages lead to the page at this address. */
  start(pageUrl: string | null = null): void {
    this.#pageUrl = pageUrl;
    this.#isStarted = true;
    this.engine.onCommit((events) => {
      if (!this.#stopped && this.#follower.committed(events)) this.wake();
    });
    this.#unsubscribe = this.engine.onAppend((pos) => {
      if (this.#news !== null || !this.#follower.isBehind(pos)) return;
      this.#news = setTimeout(() => {
        this.#news = null;
        if (this.#follower.isBehind(pos)) this.wake();
      }, NEWS_MS).unref();
    });
    this.#sweep = setInterval(() => {
      this.#follower.refresh();
      this.wake();
    }, SWEEP_MS).unref();
    this.wake();
  }

  /** Tells what there is to tell, for a little while; the rest is told later. */
  async stop(): Promise<void> {
    this.#unsubscribe?.();
    if (this.#news !== null) clearTimeout(this.#news);
    if (this.#sweep !== null) clearInterval(this.#sweep);
    const cutOff = setTimeout(() => {
      this.#stopped = true;
      this.#stop.abort();
    }, STOP_MS);
    if (this.#isStarted) await this.settled();
    clearTimeout(cutOff);
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** Looks whether there is something to tell; several wishes are one. */
  wake(): void {
    this.#isDue = true;
    if (this.#working !== null || this.#stopped) return;
    this.#working = this.#work().finally(() => {
      this.#working = null;
      // Somebody may have asked just when the last look had ended.
      if (this.#isDue) this.wake();
    });
  }

  /** Resolves when the look under way has ended; what it found may still be on its way. */
  async looked(): Promise<void> {
    await this.#working;
  }

  /** Looks, and resolves when nothing is under way and nothing is due. */
  async settled(): Promise<void> {
    this.wake();
    while (this.#working !== null || this.#inFlight.size > 0) {
      await this.#working;
      await Promise.allSettled(this.#inFlight);
    }
  }

  async #work(): Promise<void> {
    while (this.#isDue && !this.#stopped) {
      this.#isDue = false;
      try {
        await this.#forget();
        const read = await this.#follower.step();
        const nextAt = await this.#send();
        if (read === "busy") this.#wakeIn(RETRY_MS);
        else if (nextAt !== null) {
          this.#wakeIn(msBetween(await this.#options.store.now(), nextAt));
        }
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        this.#options.warn({ reason }, "telling webhooks failed");
        this.#follower.refresh();
        this.#wakeIn(RETRY_MS);
      }
    }
  }

  #wakeIn(ms: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#stopped) return;
    const bounded = Math.min(Math.max(1, ms), SWEEP_MS);
    this.#timer = setTimeout(() => this.wake(), bounded).unref();
  }

  /** Forgets what webhooks that were deleted had still to tell. */
  async #forget(): Promise<void> {
    if (!this.#follower.isStale) return;
    const { store } = this.#options;
    const gone = await store.read(this.#ws, async (reader) => {
      const probes = await reader.probesOf("notification", null, SWEPT_MAX);
      const subjects = new Set(probes.map(({ subject }) => subject));
      subjects.delete(LEDGER_SUBJECT);
      if (subjects.size === 0) return [];
      const keys = [...subjects].map((id) => [id]);
      const rows = await reader.load(WEBHOOKS, keys);
      const living = rows.filter(({ state }) => state !== "DELETED");
      for (const { webhook_id } of living) subjects.delete(webhook_id);
      return [...subjects];
    });
    for (const subject of gone) await store.removeProbes(this.#ws, ["notification"], subject);
  }

  /** Sends what is due, as far as there is room; answers when the next one is. */
  async #send(): Promise<Instant | null> {
    const { webhooks } = this.#follower;
    const now = await this.#options.store.now();
    let next: Instant | null = null;
    // Each time another one first, so that all get their turn when there is much to tell.
    this.#turn += 1;
    for (let index = 0; index < webhooks.length; index++) {
      const id = webhooks[(index + this.#turn) % webhooks.length]?.row.webhook_id ?? "";
      const room = this.#roomFor(id);
      if (room <= 0) continue;
      const { isDue, nextAt } = await this.#dueOf(id, now);
      if (nextAt !== null && (next === null || nextAt < next)) next = nextAt;
      if (isDue) await this.#takeSome(id, room);
    }
    return next;
  }

  #roomFor(webhookId: string): number {
    const own = AT_ONCE_PER_WEBHOOK - (this.#sending.get(webhookId) ?? 0);
    return Math.min(own, AT_ONCE - this.#inFlight.size);
  }

  async #dueOf(
    webhookId: string,
    now: Instant,
  ): Promise<{ isDue: boolean; nextAt: Instant | null }> {
    const probes = await this.#options.store.read(this.#ws, (reader) =>
      reader.probesOf("notification", webhookId, LOOKED_AT),
    );
    let nextAt: Instant | null = null;
    for (const { due_at, leased_until } of probes) {
      const readyAt = leased_until !== null && leased_until > due_at ? leased_until : due_at;
      if (readyAt <= now) return { isDue: true, nextAt: null };
      if (nextAt === null || readyAt < nextAt) nextAt = readyAt;
    }
    return { isDue: false, nextAt };
  }

  async #takeSome(webhookId: string, limit: number): Promise<void> {
    const probes = await this.#options.store.leaseProbes(this.#ws, {
      kinds: ["notification"],
      subjects: [webhookId],
      limit,
      ttlMs: LEASE_MS,
      holder: null,
    });
    for (const probe of probes) {
      this.#sending.set(webhookId, (this.#sending.get(webhookId) ?? 0) + 1);
      const delivering = this.#deliver(probe).catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        this.#options.warn({ reason, probe: probe.probe_id }, "telling a webhook failed");
      });
      const done = delivering.finally(() => {
        this.#inFlight.delete(done);
        const left = (this.#sending.get(webhookId) ?? 1) - 1;
        if (left === 0) this.#sending.delete(webhookId);
        else this.#sending.set(webhookId, left);
        this.wake();
      });
      this.#inFlight.add(done);
    }
  }

  async #deliver(probe: Probe): Promise<void> {
    const { store, outlets } = this.#options;
    const { probe_id, attempt, subject } = probe;
    const settle = async (due_at: Instant | null, value: Delivery | null): Promise<void> => {
      await store.settleProbes(this.#ws, [{ probe_id, attempt, due_at, value }]);
    };
    const delivery = deliveryOf(probe.value);
    // It was given up long enough ago.
    if (delivery === null || delivery.failed_at !== null) return settle(null, null);
    const now = await store.now();
    const { webhook, place } = await this.#current(subject);
    if (webhook === null || (place !== null && delivery.pos > place)) {
      // Paused a moment ago, or the follower is not past it yet: it waits, and this was no attempt.
      this.#follower.refresh();
      return settle(addMs(now, RETRY_MS), delivery);
    }
    const owner = { ws: this.#ws, kind: "webhook", id: subject } as const;
    const made = await sendNotification({
      spec: webhook.spec,
      id: deliveryIdOf(subject, delivery.pos),
      body: delivery.body,
      link: this.#linkTo(delivery.body),
      secrets: await liveSecrets(store, owner, now),
      acceptedBy: delivery.accepted_by,
      outlets,
      now,
      signal: this.#stop.signal,
    });
    await this.#settle(probe, delivery, made, settle);
  }

  #linkTo(body: NotificationBody): string | null {
    const path = pagePathOf(body);
    return path === null || this.#pageUrl === null ? null : this.#pageUrl.replace(/\/$/, "") + path;
  }

  async #settle(
    { subject }: Probe,
    delivery: Delivery,
    attempt: Attempt,
    settle: (due_at: Instant | null, value: Delivery | null) => Promise<void>,
  ): Promise<void> {
    if (isTaken(attempt)) {
      this.counts.succeeded += 1;
      return settle(null, null);
    }
    const now = await this.#options.store.now();
    if (this.#stop.signal.aborted) return settle(now, delivery);
    const { value, due_at } = afterAttempt(delivery, attempt, now, Math.random());
    await settle(due_at, value);
    if (value.failed_at === null) this.counts.retried += 1;
    else {
      this.counts.failed += 1;
      const fields = { webhook_id: subject, type: value.type, pos: value.pos };
      this.#options.warn({ ...fields, reason: attempt.error }, "a webhook could not be notified");
    }
  }

  /** The webhook as it is now, if it acts, and how far the ledger was read. */
  #current(webhookId: string) {
    return this.#options.store.read(this.#ws, async (reader) => ({
      webhook: await activeWebhook(reader, webhookId),
      place: await placeOf(reader),
    }));
  }

  get #ws(): number {
    return this.engine.workspace.ws;
  }
}
