import { setImmediate as turnOfOthers } from "node:timers/promises";
import { intervalsContain } from "../../kernel/intervals.ts";
import type { Reader } from "../../store/store.ts";
import type { PartitionDocument } from "../../work/asset/api.ts";
import { checkDocument, type CheckDocument, placesOf } from "../../work/asset/checks.ts";
import type { TaskResultField } from "../../work/run/events.ts";
import { resultsOf } from "../../work/run/story.ts";
import { eachResult } from "../../work/run/tasks.ts";

/** Characters of events that one list is read for its errors; of what is left, none are told. */
const ERROR_CHARACTERS_MAX = 8_000_000;

/** Characters of checks that one list tells; of partitions beyond that, only what they came to. */
const CHECK_CHARACTERS_MAX = 2_000_000;

/**
 * The partitions with why the last attempt at each failed, and the checks that the last materialization did
 * not pass. A row is of the event that recorded it, so that event is all that is read, once for all
 * partitions that it is about.
 */
export async function withErrors(
  reader: Reader,
  partitions: readonly PartitionDocument[],
): Promise<PartitionDocument[]> {
  const errors = new Map<PartitionDocument, PartitionDocument["last_attempt_error"]>();
  const checks = new Map<PartitionDocument, CheckDocument[]>();
  const wanted = partitions.flatMap((document) => {
    const { last_attempt_outcome: outcome, check_status, row_version: last } = document;
    const isFailed = outcome === "FAILED" && last !== null;
    const isFaulty = check_status !== null && check_status !== "PASSED";
    const made = isFaulty ? document.last_materialization_pos : null;
    return [
      ...(isFailed ? [{ pos: last, document }] : []),
      ...(made !== null ? [{ pos: made, document }] : []),
    ];
  });
  let left = ERROR_CHARACTERS_MAX;
  let room = CHECK_CHARACTERS_MAX;
  for (const [pos, alike] of Map.groupBy(wanted, (each) => each.pos)) {
    if (left <= 0) break;
    const [event] = await reader.events({ after: pos - 1, through: pos, limit: 1 });
    left -= event?.data.length ?? 0;
    if (event === undefined) continue;
    const wantedHere = new Set(alike.map(({ document }) => nameOf(document)));
    const results = resultsOf(event)
      .flatMap(eachResult)
      .flatMap((result) => {
        const places = [...result.partition_keys.entries()].flatMap(([place, key]) => {
          const name = nameOf({ ...result, partition_key: key });
          return wantedHere.has(name) ? [{ place, name }] : [];
        });
        return places.length === 0 ? [] : [{ result, places }];
      });
    const found = errorsOf(results);
    const failed = failedChecksOf(results);
    for (const { document } of alike) {
      const name = nameOf(document);
      if (document.row_version === pos) errors.set(document, found.get(name) ?? null);
      if (document.last_materialization_pos !== pos) continue;
      const own = failed.get(name) ?? [];
      room -= own.reduce((sum, check) => sum + check.length, 0);
      if (room >= 0)
        checks.set(
          document,
          own.map((check) => check.document),
        );
    }
    await turnOfOthers();
  }
  return partitions.map((each) => ({
    ...each,
    last_attempt_error: errors.get(each) ?? null,
    failed_checks: checks.get(each) ?? [],
  }));
}

function nameOf({
  asset_key,
  partition_key,
}: Pick<PartitionDocument, "asset_key" | "partition_key">): string {
  return `${asset_key}\n${partition_key}`;
}

/** A result, and those of its partitions that are wanted, by their place in the task. */
type WantedResult = { result: TaskResultField; places: { place: number; name: string }[] };

/** A check as it is shown, and how long that is. */
type ShownCheck = { document: CheckDocument; length: number };

/** The checks that wanted partitions did not pass. */
function failedChecksOf(results: readonly WantedResult[]): Map<string, ShownCheck[]> {
  const found = new Map<string, ShownCheck[]>();
  for (const { result, places } of results) {
    const { checks = [], partition_keys } = result;
    const failed = checks
      .filter(({ passed }) => !passed)
      .map((check) => {
        const document = checkDocument(check);
        const about = placesOf(check, partition_keys.length);
        return { document, about, length: JSON.stringify(document).length };
      });
    for (const { place, name } of places) {
      const own = failed.filter(({ about }) => intervalsContain(about, place));
      if (own.length > 0) found.set(name, own);
    }
  }
  return found;
}

type AttemptError = NonNullable<PartitionDocument["last_attempt_error"]>;

/** Why attempts at wanted partitions failed. */
function errorsOf(results: readonly WantedResult[]): Map<string, AttemptError> {
  const errors = new Map<string, AttemptError>();
  for (const { result, places } of results) {
    const { task_key, outcome, error, exceptions = [] } = result;
    // What went wrong with one partition by itself goes before what is said of the whole task.
    const ownOf = new Map(exceptions.map((exception) => [exception.index, exception]));
    for (const { place, name } of places) {
      const own = ownOf.get(place);
      if ((own?.outcome ?? outcome) !== "FAILED") continue;
      const said = own?.error ?? error;
      if (said === undefined || said === null) continue;
      errors.set(name, { task_key, class: said.class, message: said.message });
    }
  }
  return errors;
}
