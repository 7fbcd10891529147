import { type Evaluation, evaluateSensor } from "../../src/work/sensor/evaluate.ts";
import { receiveMessages } from "../../src/work/sensor/commands.ts";
import type { NewEvent } from "../../src/work/events.ts";
import type { EvaluatedRequest, EvaluationOutcome } from "../../src/work/probe-protocol.ts";
import type { SensorRow } from "../../src/work/sensor/rows.ts";
import { LedgerWorld } from "./ledger-world.ts";

/** A request for a run of the asset without partitions. */
export function ask(given: Partial<EvaluatedRequest> = {}): EvaluatedRequest {
  return {
    asset_selection: ["a"],
    partition_keys: null,
    run_key: null,
    config: null,
    labels: {},
    ...given,
  };
}

/** The outcome of an evaluation that did not fail. */
export function found(
  cursor: string | null,
  ...run_requests: EvaluatedRequest[]
): EvaluationOutcome {
  return { type: "evaluated", cursor, run_requests };
}

/** A ledger with an asset and sensors of both kinds. */
export class SensorWorld extends LedgerWorld {
  #epoch = 0;

  constructor(given: object = {}) {
    super();
    this.publish({ asset_key: "a" });
    this.publish({ asset_key: "p", partitions: { type: "static", keys: ["x", "y"] } });
    this.publish(
      { kind: "sensor", name: "look", mode: "poll", labels: { team: "data" }, ...given },
      { kind: "sensor", name: "hook", mode: "push" },
    );
  }

  sensor(name: string): SensorRow {
    const where = [{ cell: "name", is: "=", value: name }] as const;
    const [row] = this.read((rows) => rows.sensors.find(where, [], 1));
    if (row === undefined) throw new Error(`There is no sensor ${name}.`);
    return row;
  }

  /** What somebody reads who begins to evaluate the poll sensor now. */
  begin(): Omit<Evaluation, "outcome"> {
    const { sensor_id, cursor, state_version } = this.sensor("look");
    this.#epoch += 1;
    const source = { type: "poll", poll_epoch: this.#epoch } as const;
    return { sensor_id, source, cursor, expected_state_version: state_version };
  }

  /** Evaluates the poll sensor. */
  look(cursor: string | null, ...run_requests: EvaluatedRequest[]) {
    const outcome = found(cursor, ...run_requests);
    return this.submit(evaluateSensor({ ...this.begin(), outcome }));
  }

  receive(message_id: string): void {
    const payload_digest = "0".repeat(64);
    const message = { message_id, source: "webhook", type: null, attributes: {} } as const;
    const messages = [{ ...message, payload: 1, published_at: null, payload_digest }];
    this.submit(receiveMessages({ sensor: "hook", messages }));
  }

  /** Evaluates a message of the push sensor. */
  evaluated(message_id: string, outcome: Evaluation["outcome"], isTriedAgain = false) {
    const { sensor_id } = this.sensor("hook");
    const source = { type: "push", message_id } as const;
    const read = { sensor_id, source, cursor: null, expected_state_version: null };
    return this.submit(evaluateSensor({ ...read, outcome, isTriedAgain }));
  }

  typesSince(pos: number): NewEvent["type"][] {
    return this.events.slice(pos).map(({ type }) => type);
  }
}
