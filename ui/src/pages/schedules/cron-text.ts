const NICKNAMES: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const SHORT = WEEKDAYS.map((day) => day.slice(0, 3).toLowerCase());

/** What a cron expression says, in words; null where that would be longer than the expression. */
export function cronText(cron: string): string | null {
  const text = cron.trim().toLowerCase();
  const fields = (NICKNAMES[text] ?? text).split(/\s+/);
  if (fields.length === 5) fields.unshift("0");
  const [second = "", minute = "", hour = "", day = "", month = "", weekday = ""] = fields;
  if (fields.length !== 6 || month !== "*") return null;
  const days = daysText(day, weekday);
  const times = timesText(second, minute, hour);
  if (days === null || times === null) return null;
  const isTimed = hour.split(",").every(isNumber);
  if (days === "") return isTimed ? `every day ${times}` : times;
  return isTimed ? `${days} ${times}` : `${times}, ${days}`;
}

function daysText(day: string, weekday: string): string | null {
  if (isAny(day) && isAny(weekday)) return "";
  if (isNumber(day) && isAny(weekday)) return `on day ${Number(day)} of every month`;
  if (!isAny(day)) return null;
  const range = weekday.split("-");
  if (range.length === 2) {
    const [first, last] = range.map(weekdayName);
    return first && last ? `${first} to ${last}` : null;
  }
  const named = weekday.split(",").map(weekdayName);
  return named.includes("") ? null : `every ${listText(named)}`;
}

function timesText(second: string, minute: string, hour: string): string | null {
  const everySecond = stepOf(second, 60);
  if (everySecond !== null && isAny(minute) && isAny(hour)) return everyText(everySecond, "second");
  if (!isNumber(second)) return null;
  const seconds = Number(second) === 0 ? "" : `:${two(second)}`;
  const everyMinute = stepOf(minute, 60);
  if (everyMinute !== null && isAny(hour) && seconds === "")
    return everyText(everyMinute, "minute");
  if (!isNumber(minute)) return null;
  const everyHour = stepOf(hour, 24);
  if (everyHour !== null) {
    const past = seconds === "" ? minutesPast(Number(minute)) : ` at :${two(minute)}${seconds}`;
    return `${everyText(everyHour, "hour")}${past}`;
  }
  const hours = hour.split(",");
  if (!hours.every(isNumber)) return null;
  return `at ${listText(hours.map((each) => `${two(each)}:${two(minute)}${seconds}`))}`;
}

function minutesPast(minute: number): string {
  return minute === 0 ? ", on the hour" : ` at :${two(String(minute))}`;
}

function everyText(count: number, unit: string): string {
  return count === 1 ? `every ${unit}` : `every ${count} ${unit}s`;
}

/** The step of `*` or of `*` with a step that divides its field evenly. */
function stepOf(field: string, size: number): number | null {
  if (field === "*") return 1;
  const [, step] = /^(?:\*|0)\/(\d+)$/.exec(field) ?? [];
  return step !== undefined && size % Number(step) === 0 ? Number(step) : null;
}

/** The weekday that a name or number stands for; empty when it is none. */
function weekdayName(field: string): string {
  const index = /^[0-7]$/.test(field) ? Number(field) % 7 : SHORT.indexOf(field);
  return WEEKDAYS[index] ?? "";
}

function isAny(field: string): boolean {
  return field === "*" || field === "?";
}

function isNumber(field: string): boolean {
  return /^\d{1,2}$/.test(field);
}

function two(field: string): string {
  return field.padStart(2, "0");
}

function listText(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}
