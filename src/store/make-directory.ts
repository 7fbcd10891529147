import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";

/** What only its owner may read or write: the store has signing secrets, and what the work is. */
const PRIVATE_FOLDER = 0o700;
const PRIVATE_FILE = 0o600;
const OTHERS = 0o077;
/** Of folders such as /tmp, which belong to everybody. */
const STICKY = 0o1000;

/** The files that Pawl itself keeps in its data directory. */
const OWN_FILE =
  /^(?:pawl\.db(?:-wal|-shm|-journal)?|server\.(?:lock(?:-journal)?|json(?:\.\d+)?))$/;

/**
 * Makes a folder and those above it. Not by `recursive`: that never ends where the system has no
 * folder to make, as under /proc.
 */
export function makeDirectory(path: string, mode = 0o777): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeDirectory(parent);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process may have been faster.
    if (!existsSync(path)) throw error;
  }
}

/**
 * Makes a data directory that only its owner may enter, or takes from others what they may do in one
 * that is there. A folder that holds more than Pawl's own files keeps its mode: it is somebody
 * else's too. `warn` hears of everything that was open, or has to stay so.
 */
export function makePrivateDirectory(
  path: string,
  warn: (sentence: string) => void = () => undefined,
): void {
  makeDirectory(path, PRIVATE_FOLDER);
  const names = readdirSync(path);
  const own = names.filter((name) => OWN_FILE.test(name));
  for (const name of own) closeToOthers(join(path, name), PRIVATE_FILE, warn);
  if (own.length === names.length) closeToOthers(path, PRIVATE_FOLDER, warn);
  else if (isOpenToOthers(path)) {
    const other = names.find((name) => !OWN_FILE.test(name)) ?? "";
    warn(`${path} stays open to other users, as it holds more than Pawl's own files (${other}).`);
  }
}

/** Makes a file that only its owner may read, unless it is there. */
export function makePrivateFile(path: string): void {
  closeSync(openSync(path, "a", PRIVATE_FILE));
}

/** Whether a file or folder is this user's own, and nobody else may do anything with it. */
export function isPrivate(path: string): boolean {
  const { uid, mode } = statSync(path);
  const user = process.getuid?.();
  // Without users, as on Windows, a folder's own rights are all there is.
  return user === undefined || (uid === user && (mode & OTHERS) === 0);
}

function isOpenToOthers(path: string): boolean {
  // Without users there is nobody to close it to.
  if (process.getuid === undefined) return false;
  return ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & OTHERS) !== 0;
}

function closeToOthers(path: string, mode: number, warn: (sentence: string) => void): void {
  const found = isOpenToOthers(path) ? statSync(path, { throwIfNoEntry: false }) : undefined;
  if (found === undefined) return;
  const before = (found.mode & 0o777).toString(8);
  try {
    if ((found.mode & STICKY) !== 0) throw new Error("it belongs to everybody");
    chmodSync(path, mode);
    warn(`${path} was open to other users (mode ${before}); now it is its owner's alone.`);
  } catch {
    warn(`${path} is open to other users (mode ${before}) and cannot be closed to them from here.`);
  }
}
