/** A line of what changed between two cursors. */
export type CursorChange = {
  kind: "added" | "removed" | "changed";
  /** The field that changed; empty when the cursor is one text. */
  name: string;
  before: string;
  after: string;
};

/** What changed between two cursors, and how many fields stayed as they were. */
export type CursorDifference = { changes: CursorChange[]; same: number };

/** What changed between two cursors: field by field where both are JSON objects or lists. */
export function cursorDifference(before: string | null, after: string | null): CursorDifference {
  if (before === after) return { changes: [], same: before === null ? 0 : 1 };
  const [from, to] = [fieldsOf(before), fieldsOf(after)];
  if (from === null || to === null) {
    const kind = before === null ? "added" : after === null ? "removed" : "changed";
    const change = { kind, name: "", before: before ?? "", after: after ?? "" } as const;
    return { changes: [change], same: 0 };
  }
  const names = [...new Set([...from.keys(), ...to.keys()])];
  const changes = names.flatMap((name): CursorChange[] => {
    const [one, other] = [from.get(name), to.get(name)];
    if (one === other) return [];
    const kind = one === undefined ? "added" : other === undefined ? "removed" : "changed";
    return [{ kind, name, before: one ?? "", after: other ?? "" }];
  });
  return { changes, same: names.length - changes.length };
}

/** The fields of a cursor that is a JSON object or list, as texts; nothing for none at all. */
function fieldsOf(cursor: string | null): Map<string, string> | null {
  if (cursor === null) return new Map();
  if (!/^[{[]/.test(cursor)) return null;
  let value: unknown;
  try {
    value = JSON.parse(cursor);
  } catch {
    return null;
  }
  // Where something stands in a list says nothing: the things themselves are what is remembered.
  if (Array.isArray(value)) return new Map(value.map((item) => [textOf(item), ""]));
  return new Map(flat(value as object, ""));
}

function flat(value: object, path: string): [string, string][] {
  return Object.entries(value).flatMap(([name, item]: [string, unknown]): [string, string][] => {
    const isDeeper = typeof item === "object" && item !== null && !Array.isArray(item);
    if (isDeeper && Object.keys(item).length > 0) return flat(item, `${path}${name} › `);
    return [[`${path}${name}`, textOf(item)]];
  });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
