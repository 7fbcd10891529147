import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import pg from "pg";

/** How often a process looks whether its clock was set. */
const LOOKS_EVERY_MS = 20;

/** What a process loads before anything else, so that its clock can be set while it runs. */
const SETTABLE = `
import { readFileSync } from "node:fs";
const { CLOCK_FILE: file } = process.env;
const RealDate = Date;
let aheadMs = 0;
let lookedMs = -Infinity;
const now = () => {
  const elapsedMs = performance.now();
  if (elapsedMs - lookedMs >= ${LOOKS_EVERY_MS}) {
    lookedMs = elapsedMs;
    aheadMs = Number(readFileSync(file, "utf8"));
  }
  return RealDate.now() + aheadMs;
};
globalThis.Date = class Date extends RealDate {
  static now = now;
  constructor(...args) {
    if (args.length === 0) super(now());
    else super(...args);
  }
};
`;

/** The clocks of a site, which may be set: that of its processes, and that of its PostgreSQL. */
export class SettableClock {
  /** What the processes of the site must have in their environment. */
  readonly env: NodeJS.ProcessEnv;
  readonly #file: string;
  readonly #databaseUrl: string | null;

  constructor(directory: string, databaseUrl: string | null) {
    this.#file = join(directory, "clock");
    this.#databaseUrl = databaseUrl;
    const preload = join(directory, "settable-clock.mjs");
    writeFileSync(preload, SETTABLE);
    writeFileSync(this.#file, "0");
    this.env = {
      CLOCK_FILE: this.#file,
      NODE_OPTIONS: `--import ${pathToFileURL(preload).href}`,
    };
  }

  /** Sets the clocks so far ahead of the time, or behind it. */
  async set(aheadMs: number): Promise<void> {
    writeFileSync(`${this.#file}.new`, String(aheadMs));
    renameSync(`${this.#file}.new`, this.#file);
    if (this.#databaseUrl === null) return;
    const client = new pg.Client({ connectionString: this.#databaseUrl });
    await client.connect();
    // All that Pawl learns of the database's clock goes through this function.
    await client.query(`
      create or replace function pawl.instant(at timestamptz) returns text
      language sql immutable as $$
        select to_char((at + interval '${aheadMs} milliseconds') at time zone 'UTC',
          'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      $$`);
    await client.end();
  }
}
