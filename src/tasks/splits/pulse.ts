import { PawlError } from "../../core/errors.ts";
import type { SplitReport } from "../../core/step-protocol.ts";
import type { StepHost } from "../step-host.ts";

/** Says about once a second how far a step is, and hears whether it should end. */
export class Pulse {
  readonly #host: StepHost<SplitReport>;
  readonly #everyMs: number;
  #saidAt: number;
  #isStopped = false;
  #isRecorded = false;

  constructor(host: StepHost<SplitReport>, everyMs: number) {
    this.#host = host;
    this.#everyMs = everyMs;
    this.#saidAt = host.now();
  }

  /** Says the report when it is time; answers whether the step should end. Throws LEASE_LOST. */
  async beat(report: () => Promise<SplitReport>): Promise<boolean> {
    this.#host.signal.throwIfAborted();
    if (this.#host.now() - this.#saidAt < this.#everyMs) return this.#isStopped;
    return this.say(await report(), null);
  }

  /** Says the report now. A server that is away is no reason to stop: the lease says when to. */
  async say(report: SplitReport, record: "caught_up" | null): Promise<boolean> {
    this.#saidAt = this.#host.now();
    try {
      const { stop } = await this.#host.say(report, record);
      this.#isStopped ||= stop;
      this.#isRecorded ||= record !== null;
    } catch (error) {
      if (!(error instanceof PawlError && error.code === "SERVER_UNREACHABLE")) throw error;
    }
    return this.#isStopped;
  }

  /** Whether something was recorded. */
  get isRecorded(): boolean {
    return this.#isRecorded;
  }
}
