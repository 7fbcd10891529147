import {
  PAYLOAD_SHOWN_MAX,
  type SensorDocument,
  type SensorEvalDocument,
  type SensorMessageDocument,
  type SensorRunRequestDocument,
} from "../work/sensor/api.ts";
import type { SensorSpec } from "../work/definition/automation.ts";
import { canonicalJson } from "../kernel/canonical.ts";
import { addMs, type Instant, msBetween } from "../kernel/instant.ts";
import { isLedgerWatch } from "../work/sensor/ledger-watch.ts";
import { SPECS } from "../work/definition/rows.ts";
import { type RunRow, RUNS } from "../work/run/rows.ts";
import {
  SENSOR_MESSAGES,
  type SensorEvalRow,
  type SensorMessageRow,
  type SensorRow,
  type SensorRunRequest,
} from "../work/sensor/rows.ts";
import type { Engine } from "../engine/engine.ts";
import { evaluatorOf, pollProbeId, sensorMemoryOf } from "../work/sensor/poll.ts";
import type { Probe, Reader } from "../store/store.ts";
import { liveSecrets, type SecretStore } from "./webhooks/signing.ts";

/** A worker that has not asked for so long is not there any more. */
const HEARD_MS = 120_000;

/** What documents of sensors are made with. */
export type SensorSources = { engine: Engine; store: SecretStore };

/** Sensors with their definitions, and how each is doing. */
export async function sensorDocuments(
  sensors: readonly SensorRow[],
  reader: Reader,
  sources: SensorSources,
): Promise<SensorDocument[]> {
  const now = await sources.store.now();
  const hashes = [...new Set(sensors.map(({ spec_hash }) => spec_hash))];
  const specs = await reader.load(
    SPECS,
    hashes.map((hash) => [hash]),
  );
  const specOf = new Map(specs.map(({ spec_hash, body }) => [spec_hash, body]));
  const probes = await reader.probes(sensors.map(({ sensor_id }) => pollProbeId(sensor_id)));
  const probeOf = new Map(probes.map((probe) => [probe.subject, probe]));
  const documents: SensorDocument[] = [];
  for (const row of sensors) {
    const spec = specOf.get(row.spec_hash);
    if (spec?.kind !== "sensor") continue;
    const probe = probeOf.get(row.sensor_id) ?? null;
    documents.push(await documentOf({ row, spec, probe, now }, reader, sources));
  }
  return documents;
}

type Known = { row: SensorRow; spec: SensorSpec; probe: Probe | null; now: Instant };

async function documentOf(
  known: Known,
  reader: Reader,
  { engine, store }: SensorSources,
): Promise<SensorDocument> {
  const { row, spec, probe, now } = known;
  const { kind: _kind, ...definition } = spec;
  const { ws } = engine.workspace;
  const owner = { ws, kind: "sensor", id: row.sensor_id } as const;
  const secrets = row.mode === "push" ? await liveSecrets(store, owner, now) : [];
  const memory = sensorMemoryOf(probe?.value ?? null);
  // What watches the ledger is due all the time, and looked at when there is something.
  const isPolled = row.mode === "poll" && isActing(row) && !isLedgerWatch(spec.watch);
  return {
    ...definition,
    ...row,
    last_looked_at: memory.looked_at,
    looks: memory.unchanged,
    next_due_at: isPolled && probe !== null ? readyAt(probe) : null,
    lag_seconds: (await lagMs(known, reader)) / 1_000,
    has_secret: secrets.length > 0,
    needs_function: evaluatorOf(spec) === "code",
    has_worker: hasWorker(engine, spec, now),
  };
}

function isActing({ state }: SensorRow): boolean {
  return state === "ACTIVE" || state === "ERROR";
}

function readyAt({ due_at, leased_until }: Probe): Instant {
  return leased_until !== null && leased_until > due_at ? leased_until : due_at;
}

/** How long what the sensor should do has been waiting. */
async function lagMs({ row, spec, probe, now }: Known, reader: Reader): Promise<number> {
  if (!isActing(row)) return 0;
  if (row.mode === "push") {
    const oldest = row.messages_pending === 0 ? null : await oldestPending(row, reader);
    return oldest === null ? 0 : Math.max(0, msBetween(oldest.received_at, now));
  }
  if (probe === null || isLedgerWatch(spec.watch)) return 0;
  return Math.max(0, msBetween(readyAt(probe), now));
}

async function oldestPending(row: SensorRow, reader: Reader): Promise<SensorMessageRow | null> {
  const [oldest] = await reader.find({
    table: SENSOR_MESSAGES,
    where: [
      { cell: "state", is: "=", value: "PENDING" },
      { cell: "sensor_id", is: "=", value: row.sensor_id },
    ],
    order: [{ cell: "received_pos" }],
    limit: 1,
  });
  return oldest ?? null;
}

/** Whether somebody who can evaluate a sensor has asked this server for work lately. */
export function hasWorker(engine: Engine, spec: SensorSpec, now: Instant): boolean {
  const since = addMs(now, -HEARD_MS);
  const isLate = (at: Instant | undefined): boolean => at === undefined || at < since;
  switch (evaluatorOf(spec)) {
    case "server":
      return true;
    case "code":
      return !isLate(engine.claimedSensors().get(spec.name));
    case "anyone": {
      const heard = [...engine.claimedSensors().values(), ...engine.claimedAssets().values()];
      return heard.some((at) => !isLate(at));
    }
  }
}

/** Evaluations with what became of the runs they asked for. */
export async function evalDocuments(
  evals: readonly SensorEvalRow[],
  reader: Reader,
): Promise<SensorEvalDocument[]> {
  const requests = await requestDocuments(
    evals.flatMap(({ run_requests }) => run_requests),
    reader,
  );
  let from = 0;
  return evals.map((row) => {
    const count = row.run_requests.length;
    const run_requests = requests.slice(from, from + count);
    from += count;
    return { ...row, run_requests };
  });
}

/** Requests for runs with where the runs stand. */
export async function requestDocuments(
  requests: readonly SensorRunRequest[],
  reader: Reader,
): Promise<SensorRunRequestDocument[]> {
  const ids = [...new Set(requests.flatMap(({ run_id }) => run_id ?? []))];
  const states = new Map<string, RunRow["state"]>();
  for (let from = 0; from < ids.length; from += RUNS_AT_ONCE) {
    const values = ids.slice(from, from + RUNS_AT_ONCE);
    const runs = await reader.find({
      table: RUNS,
      where: [{ cell: "run_id", is: "in", values }],
      order: [{ cell: "run_id" }],
      limit: values.length,
    });
    for (const { run_id, state } of runs) states.set(run_id, state);
  }
  return requests.map((request) => ({
    ...request,
    run_state: states.get(request.run_id ?? "") ?? null,
  }));
}

const RUNS_AT_ONCE = 1_000;

/** Messages as they are kept; long payloads are left out. */
export function messageDocuments(messages: readonly SensorMessageRow[]): SensorMessageDocument[] {
  return messages.map((row) => {
    const isKept = row.state !== "EVALUATED";
    const payload_length = isKept ? canonicalJson(row.payload).length : null;
    const isShown = payload_length !== null && payload_length <= PAYLOAD_SHOWN_MAX;
    return { ...row, payload: isShown ? row.payload : null, payload_length };
  });
}
