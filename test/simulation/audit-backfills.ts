import { selectedKeys, type AuditedProject } from "./audited-project.ts";
import { AuditedBackfill } from "./audited-backfill.ts";
import { type PairState, pairOf } from "./audited-pair.ts";
import type { Audited } from "./audit-ledger.ts";
import type { Violations } from "./violations.ts";

const LEGAL: Record<string, readonly string[]> = {
  PENDING: ["RUNNING", "CANCELLED"],
  RUNNING: ["PAUSED", "CANCELLING", "CANCELLED", "SUCCEEDED", "FAILED"],
  PAUSED: ["RUNNING", "CANCELLING", "CANCELLED"],
  CANCELLING: ["CANCELLING", "CANCELLED"],
};

/** What must stand directly after an event, as the same decision made both. */
type Expected = { what: string; holds: (event: Audited) => boolean };

/** Follows backfills and chunks through the ledger. */
export class BackfillAudit {
  readonly byId = new Map<string, AuditedBackfill>();
  readonly #project: AuditedProject;
  readonly #violations: Violations;
  #expected: Expected[] = [];
  #materialized: (pair: string) => boolean = () => false;

  constructor(project: AuditedProject, violations: Violations) {
    this.#project = project;
    this.#violations = violations;
  }

  /** Whether more events of the same decision must follow. */
  get isWithinDecision(): boolean {
    return this.#expected.length > 0;
  }

  /** Notes that the next event must be like this. */
  expect(expected: Expected): void {
    this.#expected.push(expected);
  }

  expectNext(event: Audited): void {
    const expected = this.#expected.shift();
    if (expected === undefined) return;
    const what = `${expected.what} is missing at ${event.pos}, where ${event.type} stands`;
    this.#violations.check(expected.holds(event), "I4", what);
  }

  get(id: string): AuditedBackfill {
    const backfill = this.byId.get(id);
    if (backfill === undefined) throw new Error(`There is no backfill ${id}.`);
    return backfill;
  }

  created(
    { data, pos }: Audited<"BackfillCreated">,
    materialized: (pair: string) => boolean,
  ): void {
    const assets = data.spec_hashes.map((hash) => this.#project.asset(hash));
    const [first] = assets;
    if (first === undefined) throw new Error("A backfill has no assets.");
    const { partition_selector: selector } = data;
    // A retry has the keys of what it retries, also those that were removed meanwhile.
    const keys =
      selector.type === "outcome" || selector.type === "missing"
        ? this.get(selector.backfill_id).keys
        : this.#project.keysOf(first, data.bound);
    const backfill = new AuditedBackfill(pos, data, assets, keys);
    this.byId.set(data.backfill_id, backfill);
    const isStale = data.partition_selector.type === "stale";
    const isRetry = data.request?.request_key.startsWith("backfill_retry:") ?? false;
    const wanted = isStale ? [] : this.#wanted(backfill, isRetry, materialized);
    for (const pair of wanted) backfill.pairs.set(pair, "pending");
    this.#materialized = materialized;
    // What was stale is said by the survey that follows.
    if (!isStale)
      this.#violations.check(
        data.total_pairs === backfill.pairs.size,
        data.survey_pages > 0 ? "I32" : "I28",
        `${data.backfill_id} has ${data.total_pairs} pairs, its selection ${backfill.pairs.size}`,
      );
    for (let page = 0; page < data.survey_pages; page++) {
      this.expect({
        what: `survey page ${page}`,
        holds: (next) => next.type === "KeysSurveyed" && next.data.page === page,
      });
    }
  }

  /** The pairs that the backfill's selector means, recomputed. */
  #wanted(
    backfill: AuditedBackfill,
    isRetry: boolean,
    materialized: (pair: string) => boolean,
  ): string[] {
    const { data } = backfill;
    const selector = data.partition_selector;
    const product = (keys: readonly string[]): string[] =>
      data.asset_selection.flatMap((asset) => keys.map((key) => pairOf(asset, key)));
    if (selector.type === "outcome" || selector.type === "missing") {
      const parent = this.get(selector.backfill_id);
      const mayGoOn = isRetry && selector.type === "outcome";
      const isKnown = parent.isEnded || (mayGoOn && selector.outcomes.join() === "FAILED");
      this.#violations.check(isKnown, "I32", "a retry is of what failed, or what has ended");
      const pairs = [...parent.pairs];
      if (selector.type === "missing") {
        return pairs.flatMap(([pair]) => (materialized(pair) ? [] : [pair]));
      }
      const states = selector.outcomes.map((outcome) => outcome.toLowerCase());
      const taken = isRetry ? this.#takenElsewhere(parent, states) : new Set<string>();
      return pairs.flatMap(([pair, state]) => {
        const isFor = states.includes(state) && !taken.has(pair) && !parent.maySplit(pair);
        return isFor ? [pair] : [];
      });
    }
    if (backfill.assets[0]?.partitions === null) return product([""]);
    return product(selectedKeys(backfill.keys, selector));
  }

  /** Pairs that other retries have: of the parent, and later ones of those that it came from. */
  #takenElsewhere(parent: AuditedBackfill, states: readonly string[]): Set<string> {
    const taken = this.#takenBy(parent, -1, states);
    let child = parent;
    while (child.data.parent_backfill_id !== null) {
      const from = this.get(child.data.parent_backfill_id);
      for (const pair of this.#takenBy(from, child.pos, states)) taken.add(pair);
      child = from;
    }
    return taken;
  }

  #takenBy(parent: AuditedBackfill, after: number, states: readonly string[]): Set<string> {
    const taken = new Set<string>();
    const left = ["failed", "cancelled", ...states.filter((state) => state === "skipped")];
    for (const retry of this.byId.values()) {
      const isOf = retry.data.parent_backfill_id === parent.data.backfill_id;
      if (!isOf || retry.pos <= after) continue;
      const again = this.#takenBy(retry, -1, states);
      for (const [pair, state] of retry.pairs) {
        if (!retry.isEnded || !left.includes(state) || again.has(pair)) taken.add(pair);
      }
    }
    return taken;
  }

  surveyed({ data }: Audited<"KeysSurveyed">): void {
    const backfill = this.get(data.backfill_id);
    backfill.surveyed.push(...data.parts);
    backfill.surveyPages += 1;
    if (backfill.surveyPages < backfill.data.survey_pages) return;
    const pairs = backfill.pairsOf(backfill.surveyed);
    if (backfill.data.partition_selector.type === "stale") return this.#foundStale(backfill, pairs);
    this.#violations.check(
      isSameSet(pairs, [...backfill.pairs.keys()]),
      "I32",
      `the survey of ${data.backfill_id} is not what its parent left`,
    );
  }

  /** A search for what is stale takes what it found, which must be as it says. */
  #foundStale(backfill: AuditedBackfill, pairs: readonly string[]): void {
    const { data } = backfill;
    const check = (condition: boolean, what: string): void =>
      this.#violations.check(condition, "I28", `${data.backfill_id}: ${what}`);
    check(data.total_pairs === pairs.length, `${data.total_pairs} pairs are ${pairs.length}`);
    check(new Set(pairs).size === pairs.length, "a pair was found twice");
    const reasons = data.stale_reasons;
    const never = pairs.filter((pair) => !this.#materialized(pair)).length;
    check(reasons?.NEVER_MATERIALIZED === never, `${never} were never materialized`);
    for (const pair of pairs) backfill.pairs.set(pair, "pending");
  }

  planned({ data, pos, occurred_at }: Audited<"BackfillChunkPlanned">): void {
    const { backfill_id, chunk_index, generation } = data;
    const backfill = this.get(backfill_id);
    const name = `${backfill_id}:${chunk_index}`;
    const check = (condition: boolean, promise: string, what: string): void =>
      this.#violations.check(condition, promise, `${name} at ${pos}: ${what}`);
    check(backfill.state === "RUNNING", "I31", `planned while ${backfill.state}`);
    const startAt = backfill.data.timing?.start_at ?? null;
    check(backfill.isOpen, "I87", "planned while its window is closed");
    check(startAt === null || startAt <= occurred_at, "I87", `planned before ${startAt}`);
    check(backfill.active() < backfill.maxConcurrent, "I30", `${backfill.active()} were active`);
    check(data.chunk_id === name, "I19", `it is called ${data.chunk_id}`);
    const key = `backfill:${backfill_id}:chunk:${chunk_index}`;
    check(
      data.run_key === (generation === 0 ? key : `${key}:gen:${generation}`),
      "I19",
      data.run_key,
    );
    const before = backfill.chunks.get(chunk_index);
    check(before === undefined || before.state === "PENDING", "I29", "planned before");
    const pairs = backfill.pairsOf(data.parts);
    check(data.partitions === pairs.length, "I33", `${data.partitions} pairs`);
    check(new Set(pairs).size === pairs.length, "I28", "it holds a pair twice");
    for (const pair of pairs) {
      const state = backfill.pairs.get(pair);
      check(state !== undefined, "I28", `${pair} is not selected`);
      check(state === undefined || state === "pending", "I28", `${pair} is ${state}`);
      backfill.pairs.set(pair, "planned");
    }
    if (chunk_index < backfill.data.total_chunks)
      this.#checkPlace(backfill, chunk_index, pairs, check);
    backfill.chunks.set(chunk_index, { generation, pairs, state: "PLANNED" });
    this.expect({
      what: `the run of ${name}`,
      holds: (next) => next.type === "RunRequested" && next.data.run_key === data.run_key,
    });
  }

  /** A chunk that is no tile holds the next keys in the backfill's order. */
  #checkPlace(
    backfill: AuditedBackfill,
    index: number,
    pairs: readonly string[],
    check: (condition: boolean, promise: string, what: string) => void,
  ): void {
    const { order, chunk_size, total_partitions } = backfill.data;
    const keysOf = (list: readonly string[]): Set<string> =>
      new Set(list.map((pair) => pair.slice(pair.indexOf("\n") + 1)));
    const selected = keysOf([...backfill.pairs.keys()]);
    const ordered = backfill.keys.filter((key) => selected.has(key));
    check(ordered.length === total_partitions, "I28", `${ordered.length} keys are selected`);
    const start = index * chunk_size;
    const expected =
      order === "ascending"
        ? ordered.slice(start, start + chunk_size)
        : ordered.toReversed().slice(start, start + chunk_size);
    check(isSameSet([...keysOf(pairs)], expected), "I28", `its keys are not ${expected.join()}`);
    check(index === 0 || backfill.chunks.has(index - 1), "I29", "an earlier chunk was left out");
  }

  split({ data, pos }: Audited<"BackfillChunkSplit">): void {
    const backfill = this.get(data.backfill_id);
    const chunk = backfill.chunks.get(data.chunk_index);
    if (chunk === undefined) throw new Error("A chunk that was never planned is split.");
    const failed = chunk.pairs.filter((pair) => backfill.pairs.get(pair) === "failed");
    const tiled = data.tiles.flatMap((tile) => backfill.pairsOf(tile.parts));
    this.#violations.check(
      isSameSet(failed, tiled) && data.partitions === failed.length,
      "I28",
      `the tiles of ${data.chunk_id} at ${pos} are not what failed in it`,
    );
    chunk.state = "SPLIT";
    for (const pair of tiled) backfill.pairs.set(pair, "pending");
    for (const tile of data.tiles) {
      this.#violations.check(!backfill.chunks.has(tile.chunk_index), "I29", "a tile is new");
      const pairs = backfill.pairsOf(tile.parts);
      backfill.chunks.set(tile.chunk_index, {
        generation: data.generation,
        pairs,
        state: "PENDING",
      });
    }
  }

  stateChanged({ data, pos }: Audited<"BackfillStateChanged">): void {
    const { backfill_id, from_state, to_state, state_version } = data;
    const backfill = this.get(backfill_id);
    const check = (condition: boolean, what: string): void =>
      this.#violations.check(condition, "I31", `${backfill_id} at ${pos}: ${what}`);
    check(backfill.state === from_state, `it is ${backfill.state}, not ${from_state}`);
    check((LEGAL[from_state] ?? []).includes(to_state), `${from_state} to ${to_state}`);
    check(state_version === backfill.version + 1, `version ${state_version}`);
    backfill.state = to_state;
    backfill.version = state_version;
    if (!backfill.isEnded) return;
    check(backfill.active() === 0, `it ended with ${backfill.active()} active chunks`);
    const left = [...backfill.pairs].filter(([, state]) => state === "pending");
    if (to_state === "CANCELLED") {
      for (const [pair] of left) backfill.pairs.set(pair, "cancelled");
      return;
    }
    this.#violations.check(left.length === 0, "I28", `${backfill_id} ended with pairs to do`);
    const states = new Set<PairState>(backfill.pairs.values());
    const isClean = !states.has("failed") && !states.has("cancelled");
    check((to_state === "SUCCEEDED") === isClean, `${to_state} with ${[...states].join()}`);
  }

  windowChanged({ data }: Audited<"BackfillWindowChanged">): void {
    const backfill = this.get(data.backfill_id);
    this.#violations.check(!backfill.isEnded, "I87", `${data.backfill_id} had ended`);
    backfill.isOpen = data.is_open;
  }

  retuned({ data, pos }: Audited<"BackfillRetuned">): void {
    const backfill = this.get(data.backfill_id);
    this.#violations.check(
      data.state_version === backfill.version + 1 && !backfill.isEnded,
      "I31",
      `${data.backfill_id} is retuned at ${pos} to version ${data.state_version}`,
    );
    backfill.version = data.state_version;
    backfill.maxConcurrent = data.max_concurrent_runs ?? backfill.maxConcurrent;
  }

  auditEnd(): void {
    this.#violations.check(this.#expected.length === 0, "I4", "the last decision is incomplete");
  }
}

function isSameSet(one: readonly string[], other: readonly string[]): boolean {
  const set = new Set(one);
  return (
    one.length === other.length && set.size === one.length && other.every((each) => set.has(each))
  );
}
