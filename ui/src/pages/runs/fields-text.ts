/** The fields of a log line as text: `rows=12 table="orders"`, and as JSON where they are no object. */
export function fieldsText(fields: unknown): string {
  if (fields === null || fields === undefined) return "";
  if (typeof fields !== "object" || Array.isArray(fields)) return JSON.stringify(fields);
  const entries = Object.entries(fields);
  const short = entries.filter(([, value]) => !isLong(value));
  const texts = short.map(([name, value]) => `${name}=${valueText(value)}`);
  const long = entries.filter(([, value]) => isLong(value));
  return [texts.join(" "), ...long.map(([name, value]) => `\n${name}: ${value}`)].join("");
}

/** What has lines of its own, as a stack has, is read line by line. */
function isLong(value: unknown): boolean {
  return typeof value === "string" && value.includes("\n");
}

function valueText(value: unknown): string {
  // A word needs no quotes to be told from what is around it.
  if (typeof value === "string" && /^[^\s="]+$/.test(value)) return value;
  return JSON.stringify(value);
}
