const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
] as const;

/** A length of time in its two largest units: `2 h 5 min`, `48 s`, `320 ms`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  let seconds = Math.round(ms / 1_000);
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(seconds / size);
    if (count === 0 && parts.length === 0) continue;
    if (parts.length < 2 && count > 0) parts.push(`${count} ${unit}`);
    seconds -= count * size;
  }
  if (parts.length === 0 || (parts.length === 1 && seconds > 0 && parts[0]?.endsWith("min"))) {
    parts.push(`${seconds} s`);
  }
  return parts.join(" ");
}

/** How far a time is from now: `5 min ago`, `in 2 h`, `now`. */
export function relativeText(at: string, nowMs: number): string {
  const awayMs = Date.parse(at) - nowMs;
  if (Math.abs(awayMs) < 1_500) return "now";
  // One unit is enough to say how long ago it was.
  const text = durationText(Math.abs(awayMs)).split(" ").slice(0, 2).join(" ");
  return awayMs < 0 ? `${text} ago` : `in ${text}`;
}

/** A number as people write it: `1,234,567`. */
export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

/** A number of things, with the word for one or for several: `1 row`, `20 rows`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : several}`;
}

/** A rate in three digits at most: `12.3`, `4,120`. */
export function rateText(rate: number): string {
  const digits = rate >= 100 ? 0 : rate >= 10 ? 1 : 2;
  return rate.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** A day and time as the machine of whoever looks has it, to the second. */
export function momentText(at: string): string {
  const date = new Date(at);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
