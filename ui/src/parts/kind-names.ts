/** Where work of a kind without pages of its own is. */
export function kindHref(kind: string): string {
  return `/work/${encodeURIComponent(kind)}`;
}

/** A kind of work as a title: `Counts`. */
export function kindTitle(kind: string): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}s`;
}
