const NEWLINE = 0x0a;

const ESCAPES: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/** The values of the last row of what `copy … to stdout` gave, NULL as null; null for no rows. */
export function lastRow(copied: Buffer): (string | null)[] | null {
  if (copied.length === 0) return null;
  const end = copied.at(-1) === NEWLINE ? copied.length - 1 : copied.length;
  // A newline within a value is written as `\n`, so a real one always ends a row.
  const start = copied.lastIndexOf(NEWLINE, end - 1) + 1;
  return copied.toString("utf8", start, end).split("\t").map(fieldValue);
}

function fieldValue(field: string): string | null {
  if (field === "\\N") return null;
  if (!field.includes("\\")) return field;
  return field.replaceAll(/\\(.)/gs, (_, character: string) => ESCAPES[character] ?? character);
}
