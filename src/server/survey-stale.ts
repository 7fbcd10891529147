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

/** Partitions that are looked at for one request. */
const LOOKS_MAX = 5_000_000;

/**
 * Finds what is stale of the assets, a page at a time and outside the workspace's lock, so that
 * neither other requests nor decisions wait for it. All pages are judged by the time of the first.
 */
export async function surveyStale(
  engine: Engine,
  assets: readonly string[],
  { reasons, limit }: StaleSelector,
  signal: AbortSignal,
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
    if (looked >= LOOKS_MAX && from !== null) {
      // What was found is worth filling; a later request finds the rest.
      if (left < limit) return survey;
      throw tooMany(assetKeys, looked);
    }
    await nextTurn();
    if (signal.aborted) throw givenUp();
  }
  return survey;
}

function tooMany(assets: readonly string[], looked: number): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `The first ${looked} partitions of ${assets.join(", ")} are not stale, and more than ` +
      `${LOOKS_MAX} are not looked at for one request. Ask for fewer assets, or leave out the ` +
      "reason NEVER_MATERIALIZED, so that only what was tried is looked at.",
    { details: { assets, looked } },
  );
}

function givenUp(): PawlError {
  return new PawlError(
    "STORE_UNAVAILABLE",
    "The request was given up while stale partitions were looked for; nothing was created.",
  );
}
