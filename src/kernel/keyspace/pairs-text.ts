/** How much something covers: partitions of all assets, by the keys and the assets they are of. */
export type Pairs = {
  /** Partitions: each asset has its own of each key. */
  pairs: number;
  keys: number;
  assets: number;
};

/**
 * How many partitions there are, and of what: `56 partitions (28 keys × 2 assets)`. A partition is a
 * slice of one asset, so this is the number that everything is counted in.
 */
export function pairsText(covered: Pairs): string {
  return `${counted(covered.pairs, "partition")}${pairsNote(covered)}`;
}

/** What partitions are of, to stand behind their number; empty where that says nothing more. */
export function pairsNote({ pairs, keys, assets }: Pairs): string {
  if (assets <= 1 || pairs === keys) return "";
  const isEach = pairs === keys * assets;
  return ` (${counted(keys, "key")}${isEach ? " × " : " in "}${counted(assets, "asset")})`;
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
}
