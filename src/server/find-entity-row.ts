import { entityNotFound, type EntityRows } from "../controllers/find-entity.ts";
import { type DefinitionRow, DEFINITIONS } from "../core/rows/definition-rows.ts";
import { SCHEDULES } from "../core/rows/schedule-rows.ts";
import { SENSORS, WEBHOOKS } from "../core/rows/sensor-rows.ts";
import type { Reader } from "../store/store.ts";

const TABLES = { schedule: SCHEDULES, sensor: SENSORS, webhook: WEBHOOKS };

/** What was ever under an id, or else is defined under a name; null when there is none. */
export async function findEntityRow<Kind extends keyof EntityRows>(
  reader: Reader,
  kind: Kind,
  idOrName: string,
): Promise<EntityRows[Kind] | null> {
  const find = async (id: string) => {
    const [row] = (await reader.load(TABLES[kind], [[id]])) as EntityRows[Kind][];
    return row ?? null;
  };
  const found = await find(idOrName);
  if (found !== null) return found;
  const [named] = (await reader.load(DEFINITIONS, [[kind, idOrName]])) as DefinitionRow[];
  const id = named?.entity_id ?? null;
  return id === null ? null : find(id);
}

/** The same, but refuses what is not there. */
export async function knownEntityRow<Kind extends keyof EntityRows>(
  reader: Reader,
  kind: Kind,
  idOrName: string,
): Promise<EntityRows[Kind]> {
  const row = await findEntityRow(reader, kind, idOrName);
  if (row === null) throw entityNotFound(kind, idOrName);
  return row;
}
