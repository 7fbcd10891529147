import { fourDigits, twoDigits } from "./civil-day.ts";

/** A local minute as numbers; months and days count from 1. */
export type CivilMinute = {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
};

/** Writes local times as keys and reads them back. */
export interface KeyFormat {
  print(time: CivilMinute): string;
  /** The numbers in the text, or null when it has another shape; absent parts count as first. */
  parse(text: string): CivilMinute | null;
}

const TOKEN_FIELDS = {
  YYYY: "year",
  MM: "month",
  DD: "day",
  HH: "hour",
  mm: "minute",
} as const satisfies Record<string, keyof CivilMinute>;

type Token = keyof typeof TOKEN_FIELDS;

const TOKENS = /YYYY|MM|DD|HH|mm/g;

/**
 * Why keys in this format could not be read back, as the end of a sentence, or null. Parts have a
 * fixed width, so a format can be inverted when each needed part stands in it exactly once.
 */
export function keyFormatFault(format: string, needed: readonly string[]): string | null {
  const found: string[] = format.match(TOKENS) ?? [];
  const missing = needed.filter((token) => !found.includes(token));
  if (missing.length > 0) return `"${format}" must contain ${missing.join(" and ")}`;
  const surplus = found.find((token, at) => !needed.includes(token) || found.indexOf(token) !== at);
  if (surplus !== undefined) {
    return `"${format}" must contain ${needed.join(", ")} once each and not ${surplus} as well`;
  }
  if (/[\p{Cc}\p{Surrogate}]/u.test(format)) return "must not contain control characters";
  return null;
}

/**
 * The format that `format` spells with YYYY, MM, DD, HH and mm; everything else stands as it is.
 */
export function keyFormatOf(format: string): KeyFormat {
  const literals = format.split(TOKENS);
  const fields = ((format.match(TOKENS) ?? []) as Token[]).map((token) => TOKEN_FIELDS[token]);

  return {
    print(time) {
      let text = literals[0] ?? "";
      for (let at = 0; at < fields.length; at++) {
        const field = fields[at] ?? "year";
        text += field === "year" ? fourDigits(time.year) : twoDigits(time[field]);
        text += literals[at + 1] ?? "";
      }
      return text;
    },
    parse(text) {
      const time: CivilMinute = { year: 0, month: 1, day: 1, hour: 0, minute: 0 };
      const first = literals[0] ?? "";
      if (!text.startsWith(first)) return null;
      let position = first.length;
      for (let at = 0; at < fields.length; at++) {
        const field = fields[at] ?? "year";
        const width = field === "year" ? 4 : 2;
        const value = digitsAt(text, position, width);
        const literal = literals[at + 1] ?? "";
        if (value === null || !text.startsWith(literal, position + width)) return null;
        time[field] = value;
        position += width + literal.length;
      }
      return position === text.length ? time : null;
    },
  };
}

function digitsAt(text: string, position: number, width: number): number | null {
  if (position + width > text.length) return null;
  let value = 0;
  for (let at = position; at < position + width; at++) {
    const digit = text.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) return null;
    value = value * 10 + digit;
  }
  return value;
}
