import type { Client } from "../client/client.ts";
import { PawlError } from "../core/errors.ts";

const SHORT_LENGTH = 8;

const ULID_LENGTH = 26;

/** What a ULID is written with, so that most names are told from the end of one. */
const CROCKFORD = /^[0-9A-HJKMNP-TV-Z]+$/i;

/** As many of the newest as are looked through for a short id. */
const LOOKED_THROUGH_MAX = 1_000;

/** What is shown of an id: enough to tell it from others, and taken back by every command. */
export function shortId(id: string): string {
  if (id.startsWith("run_")) return id.slice(0, "run_".length + SHORT_LENGTH);
  // A ULID begins with its time, which is the same for all of a burst; its end is chance. An id of
  // somebody's own is shown whole.
  return id.length === ULID_LENGTH && CROCKFORD.test(id) ? id.slice(-SHORT_LENGTH) : id;
}

/** The backfill that an id or a part of one means. Throws INPUT_INVALID when it means several. */
export async function backfillIdOf(client: Client, text: string): Promise<string> {
  // An id of somebody's own may be as short as a part of another.
  if (text.length < ULID_LENGTH && (await isBackfill(client, text))) return text;
  const newest = client.each("listBackfills", { query: { limit: 200 } });
  return fullId(text, 26, newest, ({ backfill_id }) => backfill_id);
}

async function isBackfill(client: Client, text: string): Promise<boolean> {
  try {
    await client.call("getBackfill", { params: { backfill_id: text } });
    return true;
  } catch (error) {
    if (error instanceof PawlError && error.code === "BACKFILL_NOT_FOUND") return false;
    throw error;
  }
}

/** The run that an id or a part of one means. Throws INPUT_INVALID when it means several. */
export function runIdOf(client: Client, text: string): Promise<string> {
  const newest = client.each("listRuns", { query: { limit: 200 } });
  return fullId(text, 30, newest, ({ run_id }) => run_id);
}

/** The schedule that a name, an id or the end of one means, as the API takes it. */
export function scheduleRefOf(client: Client, text: string): Promise<string> {
  const query = { limit: 200, status: "ACTIVE,PAUSED,DELETED" };
  return entityRefOf(text, () => client.each("listSchedules", { query }), "schedule_id");
}

/** The sensor that a name, an id or the end of one means, as the API takes it. */
export function sensorRefOf(client: Client, text: string): Promise<string> {
  const query = { limit: 200, status: "ACTIVE,PAUSED,ERROR,DELETED" };
  return entityRefOf(text, () => client.each("listSensors", { query }), "sensor_id");
}

/** The webhook that a name, an id or the end of one means, as the API takes it. */
export function webhookRefOf(client: Client, text: string): Promise<string> {
  const query = { limit: 200, status: "ACTIVE,PAUSED,DELETED" };
  return entityRefOf(text, () => client.each("listWebhooks", { query }), "webhook_id");
}

/** The sync that an id or the end of one means; the text itself when that is no part of one. */
export function syncIdOf(client: Client, text: string): Promise<string> {
  if (!CROCKFORD.test(text)) return Promise.resolve(text);
  const status = "PENDING,RUNNING,PAUSED,COMPLETE,FOLLOWING,FAILED,REMOVED";
  const syncs = client.each("listSyncs", { query: { limit: 200, status } });
  return fullId(text, 26, syncs, ({ sync_id }) => sync_id);
}

/**
 * The sync that an id, the end of one, `name@target` or the name of one with a single target means,
 * as the API takes it.
 */
export async function syncRefOf(client: Client, text: string): Promise<string> {
  if (text.includes("@") || text.length >= 26) return text;
  const id = await syncIdOf(client, text);
  if (id !== text) return id;
  const { items } = await client.call("listSyncs", { query: { name: text, limit: 2 } });
  const [only, other] = items;
  if (only === undefined) return text;
  if (other === undefined) return only.sync_id;
  throw new PawlError(
    "INPUT_INVALID",
    `${text} has several targets: name one of them, such as ${text}@${only.target_key}.`,
    { details: { name: text } },
  );
}

/** The split that an id or a part of one means. Throws INPUT_INVALID when it means several. */
export function splitIdOf(client: Client, text: string): Promise<string> {
  const newest = client.each("listSplits", { query: { limit: 200 } });
  return fullId(text, 26, newest, ({ split_id }) => split_id);
}

/** The move that an id, the end of one or the name of its definition means, as the API takes it. */
export function moveRefOf(client: Client, text: string): Promise<string> {
  if (!CROCKFORD.test(text)) return Promise.resolve(text);
  const newest = client.each("listMoves", { query: { limit: 200 } });
  return fullId(text, 26, newest, ({ move_id }) => move_id);
}

async function entityRefOf<
  Field extends string,
  Entity extends { [Name in Field]: string } & { name: string; state: string },
>(text: string, list: () => AsyncIterable<Entity>, field: Field): Promise<string> {
  if (!CROCKFORD.test(text) || text.length >= 26 || text.length < 4) return text;
  const known: Entity[] = [];
  for await (const entity of list()) {
    if (entity.name === text && entity.state !== "DELETED") return text;
    known.push(entity);
    if (known.length >= LOOKED_THROUGH_MAX) break;
  }
  return fullId(text, 26, known, (entity) => entity[field]);
}

async function fullId<Item>(
  text: string,
  fullLength: number,
  newest: AsyncIterable<Item> | Iterable<Item>,
  idOf: (item: Item) => string,
): Promise<string> {
  if (text.length >= fullLength || text.length < 4) return text;
  const matches: string[] = [];
  let looked = 0;
  for await (const item of newest) {
    const id = idOf(item);
    if (id.startsWith(text) || id.endsWith(text.toUpperCase())) matches.push(id);
    looked++;
    if (looked >= LOOKED_THROUGH_MAX) break;
  }
  if (matches.length <= 1) return matches[0] ?? text;
  throw new PawlError(
    "INPUT_INVALID",
    `${text} means ${matches.length} of them: ${matches.slice(0, 3).join(", ")}. Give more of the id.`,
    { details: { matches } },
  );
}
