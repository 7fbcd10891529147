import { openPostgresStore } from "../store/postgres/store.ts";
import { openSqliteStore } from "../store/sqlite/store.ts";
import type { Store } from "../store/store.ts";
import { databasePath, type Project } from "./project.ts";

/** Opens the store that a project is configured for, and brings its schema up to date. */
export function openStore(project: Project): Promise<Store> {
  const { database_url: url, unsafe } = project.config;
  if (url !== null) return openPostgresStore({ url, unsafe });
  const elapsedMs = (): number => performance.now();
  return openSqliteStore({ path: databasePath(project), clock: Date.now, elapsedMs });
}
