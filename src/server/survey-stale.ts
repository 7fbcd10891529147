import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type CollectedStale,
  collectStale,
  type CollectStaleOptions,
  type StalePlace,
} from "../controllers/stale-partitions.ts";
import { addToSurvey, beginStaleSurvey, type StaleSurvey } from "../controllers/stale-targets.ts";
import { PawlError } from "../core/errors.ts";
import type { StaleSelector } from "../core/partitions/selector.ts";
import type { Engine } from "../engine/engine.ts";

/** Partitions that are looked at between two turns of the process, those upstream included. */
const PAGE_LOOKS = 2_000;

/** Partitions that are looked at for one request: a client waits a minute, this takes half of it. */
const LOOKS_MAX = 2_000_000;

/**
 * Finds what is stale of the assets, a page at a time and outside the workspace's lock, so that
 * neither other requests nor decisions wait for it. All pages are judged by the time of the first.
 */
export async function surveyStale(
  engine: Engine,
  assets: readonly string[],
  { reasons, limit }: StaleSelector,
  signal: AbortSignal,
  looksMax: number = LOOKS_MAX,
): Promise<StaleSurvey> {
  const assetKeys = [...new Set(assets)];
  const { result: survey } = await engine.evaluate(beginStaleSurvey(assetKeys));
  let from: StalePlace | null = { asset_index: 0, ordinal: 0 };
  let left = limit;
  let looked = 0;
  while (from !== null && left > 0) {
    const options: CollectStaleOptions = { budget: PAGE_LOOKS, limit: left, reasons, from };
    const { result: page } = await engine.evaluate<CollectedStale>((rows, context) => ({
      events: [],
      result: collectStale(rows, assetKeys, { ...context, now: survey.as_of }, options),
    }));
    addToSurvey(survey, page);
    left -= page.found.length;
    looked += page.looked;
    from = page.next;
    if (looked >= looksMax && from !== null && left > 0) {
      throw tooMany(assetKeys, looked, limit - left);
    }
    await nextTurn();
    if (signal.aborted) throw givenUp();
  }
  return survey;
}

/** A part is never taken for the whole: who asks says that a part is enough. */
function tooMany(assets: readonly string[], looked: number, found: number): PawlError {
  const part = found === 0 ? "" : `Set the limit to ${found} to fill those, `;
  const other = found === 0 ? "Ask for fewer assets" : "ask for fewer assets";
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `Of the first ${looked} partitions of ${assets.join(", ")} and of what is upstream of them, ` +
      `${found} are stale; more are not looked at for one request. ${part}${other}, or leave ` +
      "out the reason NEVER_MATERIALIZED, so that only what was tried is looked at.",
    { details: { assets, looked, found } },
  );
}

function givenUp(): PawlError {
  return new PawlError(
    "STORE_UNAVAILABLE",
    "The request was given up while stale partitions were looked for; nothing was created.",
  );
}
