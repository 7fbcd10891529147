/** Characters that would break `dim=value,dim=value` or be lost on paper or on a command line. */
const UNSAFE = /[%,=\s\p{Cc}]/gu;

/** A value as it stands in the key of several dimensions: unsafe characters percent-encoded. */
export function encodeValue(value: string): string {
  return value.replace(UNSAFE, percentEncoded);
}

// encodeURIComponent leaves no character of UNSAFE as it is.
function percentEncoded(character: string): string {
  return encodeURIComponent(character);
}

/** The value that `encodeValue` wrote, or null when it would have written something else. */
export function decodeValue(text: string): string | null {
  if (!text.includes("%")) return encodeValue(text) === text ? text : null;
  // Only whole runs of escapes are decoded, so a bad one is found and not thrown.
  const value = text.replace(/(?:%[0-9A-F]{2})+/g, (escapes) => decodedOr(escapes, escapes));
  return encodeValue(value) === text ? value : null;
}

function decodedOr(escapes: string, otherwise: string): string {
  try {
    return decodeURIComponent(escapes);
  } catch {
    return otherwise;
  }
}

/** The key of several dimensions, whose names must be sorted. */
export function multiKeyOf(values: readonly { name: string; value: string }[]): string {
  return values.map(({ name, value }) => `${name}=${encodeValue(value)}`).join(",");
}

/** The values of exactly these dimensions in a key, in their order, or null. */
export function valuesOfMultiKey(key: string, names: readonly string[]): string[] | null {
  const parts = key.split(",");
  if (parts.length !== names.length) return null;
  const values: string[] = [];
  for (const [at, part] of parts.entries()) {
    const prefix = `${names[at]}=`;
    if (!part.startsWith(prefix)) return null;
    const value = decodeValue(part.slice(prefix.length));
    if (value === null || value === "") return null;
    values.push(value);
  }
  return values;
}

/**
 * The values by dimension in a key of two or more dimensions, or null when it is not such a key.
 */
export function decodeMultiKey(key: string): Record<string, string> | null {
  const names = key.split(",").map((part) => part.slice(0, Math.max(0, part.indexOf("="))));
  if (names.length < 2 || names.some((name, at) => name <= (names[at - 1] ?? ""))) return null;
  const values = valuesOfMultiKey(key, names);
  if (values === null) return null;
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
}
