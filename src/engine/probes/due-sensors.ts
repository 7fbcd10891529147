import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { addMs, epochMsOf, type Instant } from "../../kernel/instant.ts";
import type { Probe, ProbeEnd, ProbeKind, Reader } from "../../store/store.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import type { ClaimedProbe } from "../../work/probe-protocol.ts";
import {
  isActing,
  isManualOver,
  type LedgerCursor,
  ledgerCursorText,
  ledgerStart,
  manualOf,
  messageIdOf,
  messageOfRow,
  messageProbeId,
  type PolledSensor,
  type Scanned,
  sensorMemoryOf,
  takeItems,
  takesMessages,
  watchedEvents,
  watchedIn,
} from "../../work/sensor/poll.ts";
import type { SensorMessageRow } from "../../work/sensor/rows.ts";
import { TABLES } from "../../work/tables.ts";
import { eventPages } from "../ledger/refold.ts";
import type { PollHost } from "./polls.ts";
import { freeAt, ProbeTable } from "./probe-table.ts";
import type { SensorView } from "./sensor-view.ts";

/** How long an evaluation of the server's own may take: one that takes longer has died. */
const SERVED_MS = 5_000;
/** Probes of a kind that are looked at for the next due time. */
const SOON_MAX = 200;
/** When it is worth asking again while probes of others fill the list. */
const CROWDED_MS = 1_000;
/** Positions of the ledger that are read at once, and how often in one poll. */
const WINDOW = 5_000;
const WINDOWS_MAX = 20;
/** Most items of one poll of the ledger. */
const ITEMS_MAX = 1_000;
/** Positions without a hit after which it is worth a write to remember them. */
const SCAN_KEPT = 5_000;

/** Who asks for evaluations: a worker that has the code of these sensors; null for this server. */
export type Claimant = { names: ReadonlySet<string> | null; holder: string | null };

/** An evaluation that was leased, and what only the server knows of it. */
export type Taken = ClaimedProbe & {
  isCut: boolean;
  /** It cannot be made: the failure to be reported in its place. */
  failure: Failure | null;
};

/** The probes that are due soonest; null when those are all, else up to when none is missing. */
type Soon = { probes: Probe[]; completeUntil: Instant | null };

/** What a claimant gets, and when it is worth asking again; null when only news can change that. */
type TakenSensors = { probes: Taken[]; nextAt: Instant | null };

/** Leases evaluations that are due and says all that their evaluator has to know. */
export class DueSensors {
  readonly #host: PollHost;
  readonly #probes: ProbeTable;
  readonly #view: SensorView;
  /** How far the ledger was looked through for each sensor, beyond what its probe remembers. */
  readonly #scanned = new Map<string, Scanned>();
  readonly #turns = { server: 0, worker: 0 };
  /** Sensors whose messages had their turn while there were more than could be taken. */
  readonly #served = new Set<string>();
  /** A poll ended before the end of the ledger without having found anything. */
  #isBehind = false;
  /** Whether any sensor watches the ledger, as of the last claim. */
  hasLedgerWatch = true;

  constructor(host: PollHost, view: SensorView) {
    this.#host = host;
    this.#probes = new ProbeTable(host);
    this.#view = view;
  }

  /** Takes up to `slots` evaluations; one claim gets those of sensors with one and the same timeout. */
  async take(claimant: Claimant, slots: number): Promise<TakenSensors> {
    const now = await this.#host.store.now();
    const { mine, soon } = await this.#probes.read((reader) => this.#survey(reader, claimant));
    const due = await this.#due(mine, soon, now);
    const { names, holder } = claimant;
    const ttlMs = names === null ? SERVED_MS : this.#host.leaseMs;
    const nothing = { probes: [], nextAt: due.nextAt };
    const groups = byTimeout(due.sensors);
    if (groups.length === 0) return nothing;
    const turn = this.#turns[names === null ? "server" : "worker"]++;
    // Polls and messages come first by turns, each time for all groups: neither waits for ever.
    const polled = { ids: due.polled, isFirst: Math.floor(turn / groups.length) % 2 === 1 };
    for (let at = 0; at < groups.length; at++) {
      const group = groups[(turn + at) % groups.length] ?? [];
      const leased = await this.#lease(group, polled, slots, { ttlMs, holder });
      const probes = await this.#prepare(claimant, leased, ttlMs, now);
      if (probes.length > 0) return { probes, nextAt: now };
    }
    return nothing;
  }

  /** The sensors of a claimant, and the probes that are due soonest. */
  async #survey(reader: Reader, claimant: Claimant) {
    const sensors = await this.#view.known(reader);
    this.hasLedgerWatch = sensors.some(({ isOfLedger }) => isOfLedger);
    const mine = new Map(
      sensors
        .filter((sensor) => canEvaluate(claimant, sensor))
        .map((sensor) => [sensor.row.sensor_id, sensor]),
    );
    const soon: Soon = { probes: [], completeUntil: null };
    if (mine.size === 0) return { mine, soon };
    for (const kind of KINDS) {
      const probes = await reader.probesOf(kind, null, SOON_MAX);
      soon.probes.push(...probes);
      const last = probes.length === SOON_MAX ? probes.at(-1)?.due_at : undefined;
      if (last !== undefined && (soon.completeUntil === null || last < soon.completeUntil)) {
        soon.completeUntil = last;
      }
    }
    return { mine, soon };
  }

  /** Which sensors have something due, and when the next will be. */
  async #due(mine: ReadonlyMap<string, PolledSensor>, soon: Soon, now: Instant) {
    const sensors = new Map<string, PolledSensor>();
    /** Those whose poll is due, and worth it. */
    const polled = new Set<string>();
    this.#isBehind = false;
    const { completeUntil } = soon;
    const isCrowded = completeUntil !== null && completeUntil <= now;
    let nextAt: Instant | null = isCrowded ? addMs(now, CROWDED_MS) : completeUntil;
    for (const probe of soon.probes) {
      const sensor = mine.get(probe.subject);
      if (sensor === undefined || (probe.kind === "poll" && !isActing(sensor))) continue;
      const at = freeAt(probe);
      if (at > now) {
        if (nextAt === null || at < nextAt) nextAt = at;
        continue;
      }
      if (probe.kind === "poll" && sensor.isOfLedger && !(await this.#isWorthIt(sensor, probe))) {
        continue;
      }
      sensors.set(probe.subject, sensor);
      if (probe.kind === "poll") polled.add(probe.subject);
    }
    if (this.#isBehind) nextAt = now;
    if (isCrowded) {
      for (const [id, sensor] of mine) {
        sensors.set(id, sensor);
        if (!sensor.isOfLedger) polled.add(id);
      }
    }
    return { sensors: [...sensors.values()], polled, nextAt };
  }

  /** Whether there is something for the sensor in the ledger, or a long way to remember. */
  async #isWorthIt({ row }: PolledSensor, probe: Probe): Promise<boolean> {
    const kept = sensorMemoryOf(probe.value).scanned;
    const sensors = await this.#probes.read((reader) => this.#view.byId(reader, [row.sensor_id]));
    const sensor = sensors.get(row.sensor_id);
    if (sensor === undefined) return false;
    try {
      const polled = await this.#pollLedger(sensor, kept);
      const behind = kept === null ? sensor.row.created_pos : kept.through;
      return polled.items.length > 0 || polled.scanned.through - behind >= SCAN_KEPT;
    } catch (error) {
      // A cursor that is no position is to be reported, once the probe is leased.
      if (error instanceof PawlError && error.code === "INPUT_INVALID") return true;
      throw error;
    }
  }

  async #pollLedger(sensor: PolledSensor, kept: Scanned | null): Promise<LedgerPoll> {
    const id = sensor.row.sensor_id;
    const own = this.#scanned.get(id) ?? null;
    const isAhead = own !== null && own.cursor === sensor.row.cursor;
    const polled = await this.#probes.read((reader) =>
      pollLedger(reader, sensor, isAhead ? own : kept),
    );
    if (polled.items.length === 0) {
      this.#scanned.set(id, polled.scanned);
      if (polled.isCut) this.#isBehind = true;
    }
    return polled;
  }

  async #lease(
    group: readonly PolledSensor[],
    polled: { ids: ReadonlySet<string>; isFirst: boolean },
    slots: number,
    terms: { ttlMs: number; holder: string | null },
  ): Promise<Probe[]> {
    const ids = group.map(({ row }) => row.sensor_id);
    const due = ids.filter((id) => polled.ids.has(id));
    const leased: Probe[] = [];
    const lease = async (kinds: readonly ProbeKind[], subjects: readonly string[]) => {
      const limit = slots - leased.length;
      if (subjects.length === 0 || limit === 0) return;
      leased.push(...(await this.#probes.lease({ kinds, subjects, limit, ...terms })));
    };
    if (polled.isFirst && due.length > 0) {
      await lease(["manual"], ids);
      await lease(["poll"], due);
    }
    const unserved = ids.filter((id) => !this.#served.has(id));
    if (unserved.length < ids.length) {
      await lease(["manual"], ids);
      await lease(["message"], unserved);
    }
    if (leased.length < slots) {
      // All have had their turn: the next round begins.
      for (const id of ids) this.#served.delete(id);
      await lease(["manual", "message"], ids);
    }
    const messages = leased.filter(({ kind }) => kind === "message");
    if (leased.length === slots) for (const { subject } of messages) this.#served.add(subject);
    await lease(["poll"], due);
    return leased;
  }

  /** Says what each evaluation needs; what is not to be evaluated after all is put back. */
  async #prepare(
    claimant: Claimant,
    leased: readonly Probe[],
    ttlMs: number,
    now: Instant,
  ): Promise<Taken[]> {
    if (leased.length === 0) return [];
    const { sensors, messages } = await this.#probes.read((reader) =>
      this.#current(reader, leased),
    );
    const taken: Taken[] = [];
    const ends: ProbeEnd[] = [];
    for (const probe of leased) {
      const sensor = sensors.get(probe.subject);
      const message = probe.kind === "message" ? (messages.get(probe.probe_id) ?? null) : null;
      const due = sensor === undefined ? null : dueOf(claimant, sensor, probe, message, now);
      if (sensor === undefined || due !== "now") {
        const { probe_id, attempt, value } = probe;
        ends.push({ probe_id, attempt, due_at: due === "now" ? null : due, value });
        continue;
      }
      const one = await this.#taken(sensor, probe, message, ttlMs);
      if ("due_at" in one) ends.push(one);
      else taken.push(one);
    }
    await this.#probes.settle(ends);
    return taken;
  }

  /** The rows as they are once the probes are leased: what an evaluation has read. */
  async #current(reader: Reader, leased: readonly Probe[]) {
    const sensors = await this.#view.byId(
      reader,
      leased.map(({ subject }) => subject),
    );
    const keyed = leased.filter(({ kind }) => kind === "message");
    const keys = keyed.map((probe) => [probe.subject, messageIdOf(probe)]);
    const rows = await reader.load(TABLES.sensorMessages, keys);
    const messages = new Map(
      rows.map((row) => [messageProbeId(row.sensor_id, row.message_id), row]),
    );
    return { sensors, messages };
  }

  async #taken(
    sensor: PolledSensor,
    probe: Probe,
    message: SensorMessageRow | null,
    ttlMs: number,
  ): Promise<Taken | ProbeEnd> {
    const { row, spec } = sensor;
    const { probe_id, attempt, leased_until } = probe;
    const isPoll = row.mode === "poll";
    const manual = probe.kind === "manual" ? manualOf(probe.value) : null;
    const claimed: Taken = {
      probe_id,
      attempt,
      kind: probe.kind as ClaimedProbe["kind"],
      sensor_id: row.sensor_id,
      name: row.name,
      watch: spec.watch,
      target: spec.target,
      timeout_ms: spec.timeout_ms,
      max_run_requests: spec.max_run_requests,
      cursor: isPoll ? row.cursor : null,
      expected_state_version: isPoll ? row.state_version : null,
      poll_epoch: epochMsOf(leased_until ?? probe.due_at) - ttlMs,
      message: message === null ? (manual?.request.message ?? null) : messageOfRow(message),
      found: null,
      isCut: false,
      failure: null,
    };
    return sensor.isOfLedger ? this.#withFound(sensor, probe, claimed) : claimed;
  }

  async #withFound(sensor: PolledSensor, probe: Probe, claimed: Taken): Promise<Taken | ProbeEnd> {
    const memory = sensorMemoryOf(probe.value);
    try {
      const polled = await this.#pollLedger(sensor, memory.scanned);
      const { items, cursor, isCut } = polled;
      if (items.length > 0 || probe.kind === "manual") {
        // Where nothing was found the cursor stays: a move would be an event of nothing.
        const after = items.length > 0 ? cursor : sensor.row.cursor;
        return { ...claimed, found: { items, cursor: after }, isCut };
      }
      const { probe_id, attempt, due_at } = probe;
      return { probe_id, attempt, due_at, value: { ...memory, scanned: polled.scanned } };
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== "INPUT_INVALID") throw error;
      return { ...claimed, failure: { class: "input", message: error.message } };
    }
  }
}

/** What a poll of the ledger found, and how far it went. */
type LedgerPoll = {
  items: Json[];
  /** The cursor after the items. */
  cursor: string;
  scanned: Scanned;
  /** There is more of the ledger than was looked through. */
  isCut: boolean;
};

/**
 * Looks for what a sensor watches in the ledger, from its cursor on: partitions that were
 * materialized, or runs that failed.
 */
async function pollLedger(
  reader: Reader,
  sensor: PolledSensor,
  remembered: Scanned | null,
): Promise<LedgerPoll> {
  const { row, spec } = sensor;
  const limit = Math.min(ITEMS_MAX, spec.max_run_requests);
  const head = (await reader.head()).pos;
  let at = ledgerStart(sensor, remembered);
  const items: Json[] = [];
  for (let window = 0; window < WINDOWS_MAX && items.length === 0; window++) {
    if (at.taken === null && at.pos >= head) break;
    const after = at.taken === null ? at.pos : at.pos - 1;
    const through = Math.min(head, after + WINDOW);
    const types = watchedEvents(sensor);
    let cut: LedgerCursor | null = null;
    // An event may be megabytes long.
    for await (const events of eventPages(reader, { after, through, types })) {
      const watched = watchedIn(sensor, events);
      const positions = new Set(watched.flatMap(({ data }) => data.run_pos ?? []));
      const keys = [...positions].map((pos) => [pos]);
      const runs = keys.length === 0 ? [] : await reader.load(TABLES.runs, keys);
      const runOf = new Map(runs.map((run) => [run.run_pos, run]));
      cut = takeItems(sensor, watched, runOf, at, { items, limit });
      if (cut !== null) break;
    }
    at = cut ?? { pos: through, taken: null };
  }
  const isCut = at.taken !== null || at.pos < head;
  const scanned = { cursor: row.cursor, spec_hash: row.spec_hash, through: at.pos };
  return { items, cursor: ledgerCursorText(at), scanned, isCut };
}

const KINDS = ["manual", "message", "poll"] as const;

function canEvaluate({ names }: Claimant, { row, evaluator }: PolledSensor): boolean {
  if (names === null) return evaluator === "server";
  return evaluator === "anyone" || (evaluator === "code" && names.has(row.name));
}

/** Whether a leased probe is to be evaluated now, at another time, or never (null). */
function dueOf(
  claimant: Claimant,
  sensor: PolledSensor,
  probe: Probe,
  message: SensorMessageRow | null,
  now: Instant,
): Instant | "now" | null {
  if (probe.kind === "manual") {
    if (isManualOver(probe.value, now) || manualOf(probe.value)?.result !== null) return null;
  } else if (!isActing(sensor)) return null;
  if (probe.kind === "poll" && sensor.row.mode !== "poll") return null;
  if (probe.kind === "message" && !(takesMessages(sensor) && message?.state === "PENDING")) {
    return null;
  }
  // Its definition changed a moment ago: somebody else can do it now.
  return canEvaluate(claimant, sensor) ? "now" : now;
}

/** The sensors in groups with the same timeout, so that quick ones do not share a claim with slow ones. */
function byTimeout(sensors: readonly PolledSensor[]): PolledSensor[][] {
  const groups = new Map<number, PolledSensor[]>();
  for (const sensor of sensors) {
    const group = groups.get(sensor.spec.timeout_ms) ?? [];
    group.push(sensor);
    groups.set(sensor.spec.timeout_ms, group);
  }
  return [...groups.values()];
}
