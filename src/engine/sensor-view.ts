import type { SensorSpec } from "../core/automation-specs.ts";
import { isLedgerWatch } from "../core/ledger-cursor.ts";
import type { SpecRow } from "../core/rows/definition-rows.ts";
import type { SensorRow } from "../core/rows/sensor-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

/** Most sensors that are looked at. */
const SENSORS_MAX = 10_000;

/**
 * Who can evaluate a sensor: this server by itself, any worker, or only a worker that has the
 * sensor's code.
 */
export type Evaluator = "server" | "anyone" | "code";

/** A sensor with the spec it acts under. */
export type Sensor = {
  row: SensorRow;
  spec: SensorSpec;
  evaluator: Evaluator;
  /** It watches the ledger itself, so the server looks for it. */
  isOfLedger: boolean;
};

/** Who can evaluate a sensor of this spec. */
export function evaluatorOf({ mode, watch, target }: SensorSpec): Evaluator {
  if (target === null) return "code";
  if (mode === "push" || isLedgerWatch(watch)) return "server";
  const needsNoCode =
    watch?.type === "files" || (watch?.type === "rows" && watch.database_env !== null);
  return needsNoCode ? "anyone" : "code";
}

/** Reads sensors with their specs, which never change under their hash and are kept. */
export class SensorView {
  readonly #specs = new Map<string, SensorSpec>();
  #known: Sensor[] | null = null;
  /** Grows whenever what is known may have become old. */
  #age = 0;
  /** Somebody says when sensors change, so that what was read may be kept until then. */
  isFollowing = false;

  /** Sensors came, went, or were paused, resumed or published again. */
  forget(): void {
    this.#known = null;
    this.#age += 1;
  }

  /** All sensors that are not deleted; their counters, cursors and versions may be old. */
  async known(reader: Reader): Promise<readonly Sensor[]> {
    if (this.#known !== null) return this.#known;
    const age = this.#age;
    const sensors = await this.living(reader);
    if (this.isFollowing && age === this.#age) this.#known = sensors;
    return sensors;
  }

  /** All sensors that are not deleted. */
  async living(reader: Reader): Promise<Sensor[]> {
    const rows = (await reader.find({
      table: TABLES.sensors,
      where: [{ cell: "state", is: "<>", value: "DELETED" }],
      order: [{ cell: "sensor_id" }],
      limit: SENSORS_MAX,
    })) as SensorRow[];
    return this.#withSpecs(reader, rows);
  }

  /** Those of these sensors that are not deleted, by id. */
  async byId(reader: Reader, ids: readonly string[]): Promise<Map<string, Sensor>> {
    const keys = [...new Set(ids)].map((id) => [id]);
    const rows = (await reader.load(TABLES.sensors, keys)) as SensorRow[];
    const living = rows.filter(({ state }) => state !== "DELETED");
    const sensors = await this.#withSpecs(reader, living);
    return new Map(sensors.map((sensor) => [sensor.row.sensor_id, sensor]));
  }

  async #withSpecs(reader: Reader, rows: readonly SensorRow[]): Promise<Sensor[]> {
    if (this.#specs.size > 2 * SENSORS_MAX) this.#specs.clear();
    const unknown = new Set(rows.map(({ spec_hash }) => spec_hash));
    for (const hash of unknown) if (this.#specs.has(hash)) unknown.delete(hash);
    if (unknown.size > 0) {
      const keys = [...unknown].map((hash) => [hash]);
      for (const { spec_hash, body } of (await reader.load(TABLES.specs, keys)) as SpecRow[]) {
        if (body.kind === "sensor") this.#specs.set(spec_hash, body);
      }
    }
    return rows.flatMap((row) => {
      const spec = this.#specs.get(row.spec_hash);
      if (spec === undefined) return [];
      const isOfLedger = isLedgerWatch(spec.watch);
      return [{ row, spec, evaluator: evaluatorOf(spec), isOfLedger }];
    });
  }
}

/** Whether the sensor looks, or its messages are evaluated, at present. */
export function isActing({ row }: Sensor): boolean {
  return row.state === "ACTIVE" || row.state === "ERROR";
}

/** Whether messages of the sensor are to be evaluated at present. */
export function takesMessages(sensor: Sensor): boolean {
  return sensor.row.mode === "push" && isActing(sensor);
}
