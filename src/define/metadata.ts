/** A row of a table: a value for each column. */
export type MetadataRow = Readonly<Record<string, unknown>>;

/** Beyond what JSON can hold exactly, the digits of a number are kept as text. */
function exactly(value: number | bigint): number | string {
  const isTooLarge = typeof value === "bigint" && BigInt.asIntN(53, value) !== value;
  return isTooLarge ? String(value) : Number(value);
}

function numberValue(value: number | bigint, options: { unit?: string } = {}) {
  const { unit } = options;
  return {
    type: "number",
    value: exactly(value),
    ...(unit === undefined ? {} : { unit }),
  } as const;
}

/** One cell that JSON cannot hold is no reason to lose the table. */
function cellOf(value: unknown): unknown {
  if (typeof value === "bigint") return exactly(value);
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return value ?? null;
}

function tableValue(rows: readonly MetadataRow[], options: { columns?: readonly string[] } = {}) {
  const columns = [...(options.columns ?? new Set(rows.flatMap((row) => Object.keys(row))))];
  return {
    type: "table",
    columns,
    rows: rows.map((row) => columns.map((column) => cellOf(row[column]))),
  } as const;
}

function linkValue(address: string | { readonly href: string }, text?: string) {
  const url = typeof address === "string" ? address : address.href;
  return { type: "link", url, ...(text === undefined ? {} : { text }) } as const;
}

/**
 * Values of metadata that say how they are shown: `{ metadata: { rows: md.number(5, { unit: "rows" }) } }`.
 * They are plain documents with a `type`; what cannot be kept of one is left out, with a line in the log.
 */
export const md = Object.freeze({
  /** A number, perhaps with a unit; of a `bigint` every digit is kept. */
  number: numberValue,
  /** Rows under the names of their columns; those of the rows unless told. */
  table: tableValue,
  /** An address to go to, perhaps under another text. */
  link: linkValue,
  /** Text with headings, lists, bold, code and links. */
  markdown: (text: string) => ({ type: "markdown", text }) as const,
  /** Anything, shown as JSON. */
  json: (value: unknown) => ({ type: "json", value }) as const,
});
