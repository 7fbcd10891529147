/** The values one field of a cron expression names. */
export type CronField = {
  /** Ascending, without repetition. */
  readonly values: readonly number[];
  /** Whether the field leaves something out by its form: one with a `*` never does. */
  readonly restricted: boolean;
};

/** The bounds of a field and the names its values may be written as, the lowest first. */
export type FieldRange = { low: number; high: number; names: readonly string[] };

const PART = /^(\*|[a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?(?:\/(\d{1,2}))?$/;

/** The values of a field in lower case, or what is wrong with it as the end of a sentence. */
export function parseCronField(text: string, range: FieldRange): CronField | string {
  const values = new Set<number>();
  for (const part of text.split(",")) {
    const fault = addPart(values, part, range);
    if (fault !== null) return fault;
  }
  return {
    values: [...values].toSorted((one, other) => one - other),
    restricted: !text.includes("*"),
  };
}

/** The sentence for a part that has no meaning in its field. */
export function notUnderstood(part: string): string {
  return `is not understood: ${JSON.stringify(part)}`;
}

/** The number that a name or digits stand for; not a number when they stand for nothing. */
export function cronValueOf(text: string, { low, names }: FieldRange): number {
  const named = names.indexOf(text);
  return named === -1 ? Number(text) : named + low;
}

function addPart(values: Set<number>, part: string, range: FieldRange): string | null {
  const { low, high } = range;
  const found = PART.exec(part);
  if (found === null) return notUnderstood(part);
  const [, fromText = "", toText, stepText] = found;
  const step = stepText === undefined ? 1 : Number(stepText);
  const from = fromText === "*" ? low : cronValueOf(fromText, range);
  // A lone number with a step runs to the end of the field, as cron has always had it.
  const open = fromText === "*" || (toText === undefined && stepText !== undefined);
  const to = toText !== undefined ? cronValueOf(toText, range) : open ? high : from;
  if (step < 1 || (fromText === "*" && toText !== undefined)) return notUnderstood(part);
  if (!(from >= low && to <= high && from <= to)) {
    return `is not within ${low} to ${high}, ascending: ${JSON.stringify(part)}`;
  }
  for (let value = from; value <= to; value += step) values.add(value);
  return null;
}
