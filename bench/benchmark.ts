/** What a benchmark found out, and what is asked of it. */
export type Figure = {
  what: string;
  /** The settings that the figure depends on. */
  setting: string;
  value: string;
  /** Null for what is told without being asked for. */
  bar: string | null;
  isReached: boolean | null;
};

/** What every benchmark is given. */
export type Bench = {
  /** An empty folder on the local disk, deleted afterwards. */
  readonly folder: string;
  /** Where the processes leave their CPU profiles, or null. */
  readonly profileFolder: string | null;
  /** Says how it goes. */
  readonly say: (line: string) => void;
};

/** A benchmark, run by its name. */
export type Benchmark = {
  name: string;
  /** What it measures, in one line. */
  about: string;
  run: (bench: Bench) => Promise<Figure[]>;
};

/** A figure that must not be below its bar. */
export function atLeast(
  what: string,
  setting: string,
  value: number,
  bar: number,
  unit: string,
): Figure {
  return {
    what,
    setting,
    value: `${shown(value)} ${unit}`,
    bar: `≥ ${shown(bar)} ${unit}`,
    isReached: value >= bar,
  };
}

/** A figure that must not be above its bar. */
export function atMost(
  what: string,
  setting: string,
  value: number,
  bar: number,
  unit: string,
): Figure {
  return {
    what,
    setting,
    value: `${shown(value)} ${unit}`,
    bar: `≤ ${shown(bar)} ${unit}`,
    isReached: value <= bar,
  };
}

/** A figure without a bar. */
export function told(what: string, setting: string, value: number, unit: string): Figure {
  return { what, setting, value: `${shown(value)} ${unit}`, bar: null, isReached: null };
}

/** A number with three digits that matter, or whole with its thousands apart. */
export function shown(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** The value below which a share of the values lies; the list is sorted in place. */
export function percentile(values: number[], share: number): number {
  values.sort((one, other) => one - other);
  return values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;
}
