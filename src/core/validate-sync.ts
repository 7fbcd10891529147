import { PawlError } from "./errors.ts";
import { suggestion } from "./near-miss.ts";
import { sourceOf, type SyncSpec, targetKeyOf } from "./sync-spec.ts";

/** Checks a sync as a whole and against the pools there are. Throws DEFINITION_INVALID. */
export function validateSync(sync: SyncSpec, pools: ReadonlySet<string>): void {
  if (sync.to === null && !sync.has.head) {
    throw invalid(sync, "has neither a function head nor an end: give it one of them.");
  }
  if (sync.to !== null && sync.to < sync.from) {
    throw invalid(sync, `begins at ${sync.from} and ends before that, at ${sync.to}.`);
  }
  if (sync.pool !== null && !pools.has(sync.pool)) {
    throw invalid(
      sync,
      `uses the pool ${JSON.stringify(sync.pool)}, which is not ` +
        `defined${suggestion(sync.pool, [...pools])}.`,
    );
  }
  const seen = new Set<string>();
  for (const target of sync.targets) {
    sourceOf(sync, target);
    const key = targetKeyOf(target);
    if (seen.has(key)) throw invalid(sync, `names the target ${key} twice.`);
    seen.add(key);
  }
}

function invalid(sync: SyncSpec, fault: string): PawlError {
  return new PawlError("DEFINITION_INVALID", `The sync ${sync.name} ${fault}`, {
    details: { kind: "sync", name: sync.name },
  });
}
