import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import type { TaskResultField } from "../core/events/run-events.ts";
import { epochMsOf, type Instant } from "../core/instant.ts";
import { SAMPLE_SECONDS } from "../core/api/overview-documents.ts";
import type { Sample } from "../store/store.ts";

/** The start of the bucket that an instant lies in, in seconds since the start of 1970. */
export function bucketOf(instant: Instant): number {
  const seconds = Math.floor(epochMsOf(instant) / 1_000);
  return seconds - (((seconds % SAMPLE_SECONDS) + SAMPLE_SECONDS) % SAMPLE_SECONDS);
}

/** Counts what the events of commits say was done, by series and bucket. */
export class SampleCounts {
  #counts = new Map<string, Sample>();

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  count(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      const at = bucketOf(event.occurred_at);
      for (const [series, value] of doneBy(event)) this.#add({ series, at, value });
    }
  }

  /** Everything counted since the last time. */
  take(): Sample[] {
    const taken = [...this.#counts.values()];
    this.#counts = new Map();
    return taken;
  }

  /** What was taken and could not be kept is to be taken again. */
  putBack(samples: readonly Sample[]): void {
    for (const sample of samples) this.#add(sample);
  }

  #add({ series, at, value }: Sample): void {
    const name = `${at} ${series}`;
    const before = this.#counts.get(name)?.value ?? 0;
    this.#counts.set(name, { series, at, value: before + value });
  }
}

/** What an event adds to which series. */
function doneBy({ type, data }: RecordedEvent): [series: string, value: number][] {
  if (type === "RunFinished") return [["runs_finished", 1]];
  if (type === "TasksFinished") {
    return endedTasks((JSON.parse(data) as EventData<"TasksFinished">).results);
  }
  if (type !== "TaskLeaseExpired") return [];
  return endedTasks([(JSON.parse(data) as EventData<"TaskLeaseExpired">).result]);
}

function endedTasks(results: readonly TaskResultField[]): [string, number][] {
  let succeeded = 0;
  let failed = 0;
  for (const { outcome, exceptions = [], count = 1, retry_at } of results) {
    // An attempt that is followed by another is not the end of its task.
    if (retry_at !== undefined) continue;
    const isPartlyFailed = exceptions.some((exception) => exception.outcome === "FAILED");
    if (outcome === "FAILED" || isPartlyFailed) failed += count;
    else if (outcome === "SUCCEEDED") succeeded += count;
  }
  const counted: [string, number][] = [
    ["tasks_succeeded", succeeded],
    ["tasks_failed", failed],
  ];
  return counted.filter(([, value]) => value > 0);
}
