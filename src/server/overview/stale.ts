import { setImmediate as nextTurn, setTimeout as after } from "node:timers/promises";
import {
  type CollectedStale,
  collectStale,
  type CollectStaleOptions,
  type StalePlace,
  addToSurvey,
  pageOfSurvey,
  type StaleSurvey,
} from "../../work/asset/stale.ts";
import { beginSurvey, type Wish } from "../../work/backfill/targets.ts";
import type { AttentionDocument } from "../../work/server-api.ts";
import {
  addStaleReasons,
  NO_STALE_REASONS,
  onlyOf,
  type Selector,
  StaleReason,
  type StaleReasons,
} from "../../kernel/keyspace/selector.ts";
import { DEFINITIONS } from "../../work/definition/rows.ts";
import type { Engine } from "../../engine/engine.ts";
import { countedText } from "./item.ts";
import { PawlError } from "../../kernel/errors.ts";

/** Partitions that are looked at between two turns of the process, and in all. */
const OVERVIEW_PAGE_LOOKS = 1_000;
const OVERVIEW_LOOKS_MAX = 20_000;
/** Every asset is looked at that much, however large those before it are. */
const ASSET_LOOKS_MIN = 100;
const ASSETS_MAX = 200;
/** A busy server gives each page its turn late: what was known before is told after so long. */
const PATIENCE_MS = 150;
/** A survey is good for so many times as long as it took: it may never keep the server busy. */
const REUSED_TIMES = 10;

/** Time alone makes partitions stale, too: a survey is made again after so long at the latest. */
const KEPT_MS = 30_000;

/** What is stale, whether everything was looked at, and the position that this was so at. */
export type StaleOverview = { items: AttentionDocument[]; isComplete: boolean; pos: number };

type Survey = { overview: StaleOverview; madeMs: number; tookMs: number };

const surveys = new WeakMap<Engine, { last: Survey | null; running: Promise<Survey> | null }>();

/**
 * What is stale by asset as of a position or later, within a budget of looks. All who ask at once
 * get one survey; while it takes long, the one before is the answer, as its position tells.
 */
export async function staleOverview(engine: Engine, pos: number): Promise<StaleOverview> {
  const kept = surveys.get(engine) ?? { last: null, running: null };
  surveys.set(engine, kept);
  if (kept.last !== null && isGood(kept.last, pos)) return kept.last.overview;
  kept.running ??= surveyAll(engine)
    .then((made) => {
      kept.last = made;
      return made;
    })
    .finally(() => {
      kept.running = null;
    });
  // Whoever does not wait for it any more is not told that it failed, either.
  kept.running.catch(() => undefined);
  const made = await Promise.race([kept.running, after(PATIENCE_MS, null, { ref: false })]);
  return made?.overview ?? kept.last?.overview ?? { items: [], isComplete: false, pos: 0 };
}

function isGood({ overview, madeMs, tookMs }: Survey, pos: number): boolean {
  const ageMs = performance.now() - madeMs;
  return ageMs < (overview.pos >= pos ? KEPT_MS : tookMs * REUSED_TIMES);
}

async function surveyAll(engine: Engine): Promise<Survey> {
  const startedMs = performance.now();
  const { assets, pos } = await engine.read(async (reader) => ({
    pos: (await reader.head()).pos,
    assets: await reader.find({
      table: DEFINITIONS,
      where: [{ cell: "kind", is: "=", value: "asset" }],
      order: [{ cell: "name" }],
      limit: ASSETS_MAX + 1,
    }),
  }));
  const share = Math.max(
    ASSET_LOOKS_MIN,
    Math.floor(OVERVIEW_LOOKS_MAX / Math.max(1, assets.length)),
  );
  const items: AttentionDocument[] = [];
  let isComplete = assets.length <= ASSETS_MAX;
  for (const { name } of assets.slice(0, ASSETS_MAX)) {
    const found = await staleOf(engine, name, share);
    if (!found.isComplete) isComplete = false;
    if (found.count > 0) items.push(staleAsset(name, found));
  }
  const madeMs = performance.now();
  return { overview: { items, isComplete, pos }, madeMs, tookMs: madeMs - startedMs };
}

type Found = { count: number; reasons: StaleReasons; failed: number; isComplete: boolean };

async function staleOf(engine: Engine, asset: string, share: number): Promise<Found> {
  let from: StalePlace | null = { asset_index: 0, ordinal: 0 };
  let looks = share;
  const found: Found = { count: 0, reasons: NO_STALE_REASONS, failed: 0, isComplete: true };
  while (from !== null && looks > 0) {
    const budget = Math.min(OVERVIEW_PAGE_LOOKS, looks);
    const options: CollectStaleOptions = { budget, limit: budget, from };
    const { result: page } = await engine.evaluate<CollectedStale>((rows, context) => ({
      events: [],
      result:
        // It may have gone since the assets were listed.
        rows.definitions.get("asset", asset) === null
          ? { found: [], reasons: NO_STALE_REASONS, failed: 0, next: null, looked: 0 }
          : collectStale(rows, [asset], context, options),
    }));
    found.count += page.found.length;
    found.reasons = addStaleReasons(found.reasons, page.reasons);
    found.failed += page.failed;
    looks -= Math.max(1, page.looked);
    from = page.next;
    await nextTurn();
  }
  return { ...found, isComplete: from === null };
}

const REASON_TEXTS: Readonly<Record<StaleReason, string>> = {
  NEVER_MATERIALIZED: "never materialized",
  CODE_CHANGED: "code changed",
  UPSTREAM_CHANGED: "upstream changed",
  FRESHNESS_POLICY: "freshness policy",
};

function staleAsset(asset: string, found: Found): AttentionDocument {
  const { count, reasons, failed, isComplete } = found;
  // What has only failed was never materialized either, and is called failed wherever it is counted.
  const parts = StaleReason.options.flatMap((reason): [number, string][] =>
    reason === "NEVER_MATERIALIZED"
      ? [
          [reasons[reason] - failed, REASON_TEXTS[reason]],
          [failed, "failed"],
        ]
      : [[reasons[reason], REASON_TEXTS[reason]]],
  );
  const told = parts
    .filter(([partitions]) => partitions > 0)
    .map(([partitions, text]) => `${partitions.toLocaleString("en")} ${text}`);
  const least = isComplete ? "" : "At least ";
  const are = count === 1 ? "is" : "are";
  return {
    kind: "asset",
    id: asset,
    name: asset,
    what: "stale",
    since: null,
    text: `${least}${countedText(count, "partition")} ${are} stale: ${told.join(", ")}.`,
  };
}

/** Partitions that are looked at between two turns of the process, those upstream included. */
const PAGE_LOOKS = 2_000;

/** Partitions that are looked at for one request: a client waits a minute, this takes half of it. */
const LOOKS_MAX = 2_000_000;

/**
 * Finds the partitions that a request is about, a page at a time and outside the workspace's lock, so
 * that neither other requests nor decisions wait for it. All pages are judged by the time of the first.
 */
export async function surveyPartitions(
  engine: Engine,
  { assets, selector }: Wish,
  signal: AbortSignal,
  looksMax: number = LOOKS_MAX,
): Promise<StaleSurvey> {
  const { result: survey } = await engine.evaluate(beginSurvey({ assets, selector }));
  const assetKeys = [...survey.assets.keys()];
  const { reasons, limit } =
    selector.type === "stale" ? selector : { reasons: undefined, limit: Number.MAX_SAFE_INTEGER };
  const asked = { budget: PAGE_LOOKS, reasons, only: onlyOf(selector), within: survey.within };
  let from: StalePlace | null = { asset_index: 0, ordinal: 0 };
  let left = limit;
  let looked = 0;
  while (from !== null && left > 0) {
    const options: CollectStaleOptions = { ...asked, limit: left, from };
    const { result: page } = await engine.evaluate<CollectedStale>((rows) => ({
      events: [],
      result: pageOfSurvey(rows, survey, options),
    }));
    addToSurvey(survey, page);
    left -= page.found.length;
    looked += page.looked;
    from = page.next;
    if (looked >= looksMax && from !== null && left > 0) {
      throw tooMany(assetKeys, selector, looked, limit - left);
    }
    await nextTurn();
    if (signal.aborted) throw givenUp();
  }
  return survey;
}

/** A part is never taken for the whole: who asks says that a part is enough. */
function tooMany(
  assets: readonly string[],
  selector: Selector,
  looked: number,
  found: number,
): PawlError {
  const details = { assets, looked, found };
  if (selector.type !== "stale") {
    return new PawlError(
      "SELECTION_TOO_LARGE",
      `More than ${looked} partitions of ${assets.join(", ")} and of what is upstream of them would ` +
        `have to be looked at to know which are ${onlyOf(selector)}. Select fewer at once, such as a ` +
        "part of the range.",
      { details },
    );
  }
  const part = found === 0 ? "" : `Set the limit to ${found} to fill those, `;
  const other = found === 0 ? "Ask for fewer assets" : "ask for fewer assets";
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `Of the first ${looked} partitions of ${assets.join(", ")} and of what is upstream of them, ` +
      `${found} are stale; more are not looked at for one request. ${part}${other}, or leave ` +
      "out the reason NEVER_MATERIALIZED, so that only what was tried is looked at.",
    { details },
  );
}

function givenUp(): PawlError {
  return new PawlError(
    "STORE_UNAVAILABLE",
    "The request was given up while its partitions were looked for; nothing was created.",
  );
}

/** A survey of which all who ask at the same time get the same answer, as the metrics of a scrape do. */
export function sharedSurvey<Result>(survey: () => Promise<Result>): () => Promise<Result> {
  let reading: Promise<Result> | null = null;
  return () => {
    reading ??= survey().finally(() => {
      reading = null;
    });
    return reading;
  };
}
