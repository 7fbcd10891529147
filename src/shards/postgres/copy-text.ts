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

/** How many fields a row has that PostgreSQL wrote as text: `(1,"a, ""b""",)`. */
export function fieldCount(row: string): number {
  let count = 1;
  let isQuoted = false;
  for (let at = 0; at < row.length; at += 1) {
    const code = row.charCodeAt(at);
    // Within quotes both characters are doubled, or escaped by a backslash.
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) isQuoted = !isQuoted;
    else if (code === COMMA && !isQuoted) count += 1;
  }
  return count;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
