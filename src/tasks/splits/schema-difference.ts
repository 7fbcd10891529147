import type { TableShape } from "../../shards/shard.ts";

/** How the tables of two shards differ, in a sentence; null when rows of one fit the other. */
export function schemaDifference(
  source: readonly TableShape[],
  target: readonly TableShape[],
): string | null {
  for (const ours of source) {
    const theirs = target.find(({ table }) => table === ours.table);
    if (theirs === undefined) return `the target has no table ${ours.table}`;
    if (theirs.fingerprint !== ours.fingerprint) return differenceOf(ours, theirs);
  }
  return null;
}

function differenceOf(source: TableShape, target: TableShape): string {
  const spelled = ({ columns }: TableShape): string[] =>
    columns.map(({ name, type }) => `${name} ${type}`);
  const [ours, theirs] = [spelled(source), spelled(target)];
  const only = (these: string[], those: string[]): string[] =>
    these.filter((column) => !those.includes(column));
  const parts = [
    ...only(ours, theirs).map((column) => `only the source has ${column}`),
    ...only(theirs, ours).map((column) => `only the target has ${column}`),
  ];
  if (source.key.join() !== target.key.join()) {
    parts.push(`the key is (${source.key.join(", ")}) there and (${target.key.join(", ")}) here`);
  }
  return `table ${source.table} differs: ${parts.join("; ") || "in constraints or order of columns"}`;
}
