import { type Logger, pino } from "pino";
import { type LineStream, paint, showsColours, type Terminal } from "./terminal.ts";

const LEVELS: Readonly<Record<number, string>> = {
  20: "debug",
  30: "info",
  40: "warn",
  50: "error",
};

/** Writes what an operator should know to standard error: lines for people, or JSON for machines. */
export function createLog(
  terminal: Terminal,
  env: Readonly<Record<string, string | undefined>>,
  options: { level: string; pretty: boolean },
): Logger {
  const { stderr } = terminal;
  const colours = showsColours(stderr, env);
  const destination: LineStream = options.pretty
    ? { write: (line) => stderr.write(prettyLine(line, { ...terminal, colours })) }
    : stderr;
  return pino({ level: options.level, base: null }, destination);
}

/** A log line for people: `08:00:01 warn  The message. key=value`. */
export function prettyLine(line: string, terminal: Terminal): string {
  const entry = parsed(line);
  if (entry === null) return line;
  const { level, time, msg, pid: _pid, hostname: _hostname, name: _name, ...fields } = entry;
  const at = new Date(Number(time)).toTimeString().slice(0, 8);
  const word = LEVELS[Number(level)] ?? "fatal";
  const style = Number(level) >= 50 ? "red" : Number(level) >= 40 ? "yellow" : "green";
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${shown(value)}`);
  const tail = rest.length === 0 ? "" : ` ${paint(terminal, "dim", rest.join(" "))}`;
  const head = `${paint(terminal, "dim", at)} ${paint(terminal, style, word.padEnd(5))}`;
  return `${head} ${typeof msg === "string" ? msg : ""}${tail}\n`;
}

function parsed(line: string): Record<string, unknown> | null {
  if (!line.startsWith("{")) return null;
  try {
    const entry = JSON.parse(line) as Record<string, unknown>;
    return "level" in entry && "time" in entry ? entry : null;
  } catch {
    return null;
  }
}

function shown(value: unknown): string {
  return typeof value === "string" && /^\S*$/.test(value) ? value : JSON.stringify(value);
}
