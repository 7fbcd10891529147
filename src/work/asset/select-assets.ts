import { PawlError } from "../../kernel/errors.ts";
import type { AssetSpec } from "../definition/spec.ts";

/** The keys of the asset and of everything that is made from it, directly or not, by key. */
export function downstreamOf(assets: readonly AssetSpec[], assetKey: string): string[] {
  return reachedFrom(assetKey, madeFrom(assets), new Set());
}

/** The keys of the asset and of everything that it is made from, directly or not, by key. */
export function upstreamOf(assets: readonly AssetSpec[], assetKey: string): string[] {
  return reachedFrom(assetKey, makersOf(assets), new Set());
}

/** What lies next to an asset in one direction. */
type Neighbours = ReadonlyMap<string, readonly string[]>;

function madeFrom(assets: readonly AssetSpec[]): Neighbours {
  const direct = new Map<string, string[]>();
  for (const asset of assets) {
    for (const { asset_key } of asset.upstream) {
      const made = direct.get(asset_key);
      if (made === undefined) direct.set(asset_key, [asset.asset_key]);
      else made.push(asset.asset_key);
    }
  }
  return direct;
}

function makersOf(assets: readonly AssetSpec[]): Neighbours {
  return new Map(
    assets.map(({ asset_key, upstream }) => [asset_key, upstream.map((each) => each.asset_key)]),
  );
}

/** What is reached from an asset and was not reached before, by key. */
function reachedFrom(assetKey: string, next: Neighbours, before: Set<string>): string[] {
  if (before.has(assetKey)) return [];
  const reached = new Set([assetKey]);
  // A set may grow while it is walked, and what is added is walked too.
  for (const key of reached) {
    before.add(key);
    for (const each of next.get(key) ?? []) if (!before.has(each)) reached.add(each);
  }
  return [...reached].toSorted();
}

/** Whether a word selects assets by how they hang together or by labels, and is no key of one. */
export function isAssetSelection(word: string): boolean {
  return word.startsWith("+") || word.endsWith("+") || word.includes(":");
}

/**
 * The keys of the assets that words select, each once: `orders`, `+orders` with all that it is made
 * from, `orders+` with all that is made from it, `label:team=growth`, and `group:finance` for the label
 * `group`. What is made elsewhere is left out, unless it is named. Keys that are unknown stay, for the
 * caller to refuse; throws SELECTION_EMPTY for a label that no asset has, and where all is made elsewhere.
 */
export function selectAssets(assets: readonly AssetSpec[], words: readonly string[]): string[] {
  const selected = new Set<string>();
  const external = new Set<string>();
  const known = new Map(assets.map((asset) => [asset.asset_key, asset]));
  const reachOf = reachFinder(assets);
  for (const word of words) {
    if (!isAssetSelection(word)) {
      selected.add(word);
      continue;
    }
    for (const key of reachOf(word)) {
      (known.get(key)?.external === true ? external : selected).add(key);
    }
  }
  if (selected.size > 0) return [...selected];
  throw new PawlError(
    "SELECTION_EMPTY",
    `${wordsText(words)} selects only what is made elsewhere and never run here: ` +
      `${[...external].slice(0, 10).join(", ")}.`,
    { details: { selection: words } },
  );
}

/** Words in a sentence: there may be a thousand. */
export function wordsText(words: readonly string[]): string {
  const more = words.length - WORDS_SHOWN;
  const shown = words.slice(0, WORDS_SHOWN).join(", ");
  return more > 0 ? `${shown} and ${more} more` : shown;
}

const WORDS_SHOWN = 10;

/** A function that says which assets a word selects that none before it did, each walked through once. */
function reachFinder(assets: readonly AssetSpec[]): (word: string) => string[] {
  const ways = {
    up: { next: makersOf(assets), before: new Set<string>() },
    down: { next: madeFrom(assets), before: new Set<string>() },
  };
  return (word) => {
    if (word.includes(":")) return labelled(assets, word);
    const key = word.replaceAll("+", "");
    const reach = (way: keyof typeof ways): string[] =>
      reachedFrom(key, ways[way].next, ways[way].before);
    return [
      ...(word.startsWith("+") ? reach("up") : []),
      ...(word.endsWith("+") ? reach("down") : []),
    ];
  };
}

function labelled(assets: readonly AssetSpec[], word: string): string[] {
  const text = word.startsWith("group:")
    ? word.replace("group:", "group=")
    : word.slice("label:".length);
  const [name, value] = [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)];
  const keys = assets.filter(({ labels }) => Object.hasOwn(labels, name) && labels[name] === value);
  if (keys.length > 0) return keys.map(({ asset_key }) => asset_key);
  const values = [
    ...new Set(
      assets.flatMap(({ labels }) => (Object.hasOwn(labels, name) ? (labels[name] ?? []) : [])),
    ),
  ];
  throw new PawlError(
    "SELECTION_EMPTY",
    `No asset has the label ${name}=${value}: ` +
      (values.length === 0
        ? `none has a label ${name}. \`pawl asset list\` shows the assets there are.`
        : `its values are ${values.toSorted().slice(0, 10).join(", ")}.`),
    { details: { selection: word } },
  );
}
