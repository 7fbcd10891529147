import type { DefinitionRow, SpecRow } from "../core/rows/definition-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { SyncSpec } from "../core/sync-spec.ts";
import type { Reader } from "../store/store.ts";

/** Specs that are kept; they never change under their hash. */
const KEPT_MAX = 1_000;

/** Reads the definitions of syncs as they are now. */
export class SyncSpecs {
  readonly #specs = new Map<string, SyncSpec>();

  /** The specs of those of these syncs that are defined, by name. */
  async of(reader: Reader, names: Iterable<string>): Promise<Map<string, SyncSpec>> {
    const keys = [...new Set(names)].map((name) => ["sync", name]);
    const rows = (await reader.load(TABLES.definitions, keys)) as DefinitionRow[];
    await this.#loadUnknown(reader, rows);
    return new Map(
      rows.flatMap(({ name, spec_hash }) => {
        const spec = this.#specs.get(spec_hash);
        return spec === undefined ? [] : [[name, spec] as const];
      }),
    );
  }

  async #loadUnknown(reader: Reader, rows: readonly DefinitionRow[]): Promise<void> {
    if (this.#specs.size > KEPT_MAX) this.#specs.clear();
    const unknown = rows.filter(({ spec_hash }) => !this.#specs.has(spec_hash));
    if (unknown.length === 0) return;
    const keys = unknown.map(({ spec_hash }) => [spec_hash]);
    for (const { spec_hash, body } of (await reader.load(TABLES.specs, keys)) as SpecRow[]) {
      if (body.kind === "sync") this.#specs.set(spec_hash, body);
    }
  }
}
