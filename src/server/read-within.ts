/** Most characters of the documents on a page: a few milliseconds of everybody's time. */
export const PAGE_LENGTH_MAX = 4_000_000;

/** What is read first, when nobody knows how long it is, and at once from then on. */
const FIRST_READ = 10;
const NEXT_READ = 50;

/** Rows of a list as documents, and the last row if more may follow. */
export type Within<Row, Document> = { items: Document[]; last: Row | null };

/**
 * Reads rows of a list until there are so many, or their documents are so long together; at least
 * one. A row may have megabytes of somebody's own, so a page of many is read in parts.
 */
export async function readWithin<Row, Document>(
  limit: number,
  read: (after: Row | null, limit: number) => Promise<readonly Row[]>,
  documentsOf: (rows: Row[]) => Promise<readonly Document[]> | readonly Document[],
): Promise<Within<Row, Document>> {
  const items: Document[] = [];
  let last: Row | null = null;
  let seen = 0;
  let length = 0;
  let most = FIRST_READ;
  for (;;) {
    const wanted = Math.min(most, limit + 1 - seen);
    const found = await read(last, wanted);
    const rows = found.slice(0, limit - seen);
    const documents = rows.length === 0 ? [] : await documentsOf(rows);
    // A list may leave some out; which row a document is of is known only where it does not.
    const isEach = documents.length === rows.length;
    for (const [index, document] of documents.entries()) {
      length += JSON.stringify(document).length;
      if (isEach && items.length > 0 && length > PAGE_LENGTH_MAX) return { items, last };
      items.push(document);
      if (isEach) last = rows[index] ?? last;
    }
    last = rows.at(-1) ?? last;
    seen += rows.length;
    if (found.length > rows.length) return { items, last };
    if (found.length < wanted) return { items, last: null };
    if (length > PAGE_LENGTH_MAX) return { items, last };
    // As many more as would have room if they are like those before.
    const each = Math.max(1, Math.ceil(length / seen));
    most = Math.min(NEXT_READ, Math.max(1, Math.floor((PAGE_LENGTH_MAX - length) / each)));
  }
}
