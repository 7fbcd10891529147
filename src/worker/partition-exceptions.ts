import { PawlError } from "../core/errors.ts";
import type { ReportedResult } from "../core/protocol.ts";
import { shown, textOf } from "./plain-values.ts";

type Exception = NonNullable<ReportedResult["exceptions"]>[number];

/** What a batch task says of single partitions; the last word on each counts. */
export class PartitionExceptions {
  readonly #isBatch: boolean;
  readonly #keys: readonly string[];
  #indexes: Map<string, number> | null = null;
  #byIndex: Map<number, Exception> | null = null;

  constructor(isBatch: boolean, keys: readonly string[]) {
    this.#isBatch = isBatch;
    this.#keys = keys;
  }

  /** Notes the exception; `INPUT_INVALID` for a key that is not the task's. */
  add(key: string, exception: Omit<Exception, "index">): void {
    if (!this.#isBatch) {
      throw new PawlError(
        "INPUT_INVALID",
        "Only a batch can fail or skip single partitions; throw an error or skip() instead.",
      );
    }
    this.#indexes ??= new Map(this.#keys.map((each, index) => [each, index]));
    const index = this.#indexes.get(key);
    if (index === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        `The partition ${shown(key)} is not one of this task's partitions.`,
        { details: { partition_key: textOf(key, 200) } },
      );
    }
    this.#byIndex ??= new Map();
    this.#byIndex.set(index, { index, ...exception });
  }

  /** Those that ended otherwise than the task, in the order of its partitions. */
  differingFrom(outcome: ReportedResult["outcome"]): Exception[] {
    if (this.#byIndex === null) return [];
    return [...this.#byIndex.values()]
      .filter((exception) => exception.outcome !== outcome)
      .toSorted((one, other) => one.index - other.index);
  }
}
