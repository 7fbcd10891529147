import type { Json } from "./canonical.ts";

/** A value of metadata that says how it is to be shown. */
export type MetadataValue =
  /** Digits where the number is too large to be one in JSON. */
  | { readonly type: "number"; readonly value: number | string; readonly unit?: string }
  | {
      readonly type: "table";
      readonly columns: readonly string[];
      readonly rows: readonly (readonly Json[])[];
    }
  | { readonly type: "link"; readonly url: string; readonly text?: string }
  | { readonly type: "markdown"; readonly text: string }
  | { readonly type: "json"; readonly value: Json };

type Document = { readonly [key: string]: Json };

/** The value as one that says how it is shown; null for any other, and for one that is not whole or too large to show. */
export function metadataValueOf(value: Json): MetadataValue | null {
  if (!isDocument(value)) return null;
  switch (value["type"]) {
    case "number":
      return numberOf(value);
    case "table":
      return tableOf(value);
    case "link": {
      const { url, text } = value;
      if (typeof url !== "string" || !hasOnly(value, "url", "text")) return null;
      if (text === undefined) return { type: "link", url };
      return typeof text === "string" ? { type: "link", url, text } : null;
    }
    case "markdown": {
      const { text } = value;
      if (typeof text !== "string" || !hasOnly(value, "text")) return null;
      return { type: "markdown", text };
    }
    case "json": {
      const { value: inner } = value;
      return inner === undefined || !hasOnly(value, "value")
        ? null
        : { type: "json", value: inner };
    }
    default:
      return null;
  }
}

function numberOf(document: Document): MetadataValue | null {
  const { value, unit } = document;
  const isNumber = typeof value === "number" || (typeof value === "string" && DIGITS.test(value));
  if (!isNumber || !hasOnly(document, "value", "unit")) return null;
  if (unit === undefined) return { type: "number", value };
  return typeof unit === "string" ? { type: "number", value, unit } : null;
}

const DIGITS = /^-?\d+$/;

/** More cells than metadata has room for when each is written: others are only claimed by long lists of nothing. */
const CELLS_MAX = 10_000;

function tableOf(document: Document): MetadataValue | null {
  const { columns, rows } = document;
  if (!isList(columns) || !isList(rows) || !hasOnly(document, "columns", "rows")) return null;
  const names = columns.filter((name) => typeof name === "string");
  const lists = rows.filter(isList);
  if (names.length < columns.length || lists.length < rows.length) return null;
  if (names.length * lists.length > CELLS_MAX) return null;
  return { type: "table", columns: names, rows: lists };
}

/** Whether a link may be followed: anything else may run code where it is clicked. */
export function isWebAddress(url: string): boolean {
  return /^https?:\/\/[^\s]/i.test(url);
}

/** A number for people, with its unit: `1,234,567 rows`. */
export function numberText(value: number | string, unit: string | undefined): string {
  const digits =
    typeof value === "string"
      ? BigInt(value).toLocaleString("en-US")
      : value.toLocaleString("en-US", { maximumFractionDigits: 6 });
  return unit === undefined ? digits : `${digits} ${unit}`;
}

/** A number among the facts of metadata, by its name. */
export type MetadataNumber = {
  readonly name: string;
  readonly value: number;
  readonly unit?: string;
};

/** The facts that are numbers; those too large to be one in JSON are as near as a number comes. */
export function numbersIn(metadata: Json): MetadataNumber[] {
  if (!isDocument(metadata)) return [];
  return Object.entries(metadata).flatMap(([name, fact]): MetadataNumber[] => {
    if (typeof fact === "number") return [{ name, value: fact }];
    const typed = metadataValueOf(fact);
    if (typed?.type !== "number") return [];
    const { value, unit } = typed;
    return [{ name, value: Number(value), ...(unit === undefined ? {} : { unit }) }];
  });
}

function hasOnly(document: Document, ...names: string[]): boolean {
  return Object.keys(document).every((name) => name === "type" || names.includes(name));
}

/** Whether a value has named members. */
export function isDocument(value: Json): value is Document {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}
