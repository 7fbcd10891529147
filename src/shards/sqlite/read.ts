import Database from "better-sqlite3";
import type { Change, Digest, ReadAnswer, ReadRequest } from "../shard.ts";
import { wentBack } from "../went-back.ts";
import { refuseUncaptured } from "./capture-triggers.ts";
import { position } from "./capture.ts";
import { lookUp } from "./catalog.ts";
import type { Connection } from "./connection.ts";
import { digestOfKeys } from "./ranges.ts";
import { type ReadChanges, readChanges } from "./read-changes.ts";
import { readChunk } from "./read-chunk.ts";
import { commonFingerprint, type TableDetail } from "./table-detail.ts";

/** Reads changes and a chunk in the snapshot that the connection has. */
export async function readSnapshot(db: Connection, request: ReadRequest): Promise<ReadAnswer> {
  const details = request.tables.map((table) => lookUp(db, table));
  if (request.from !== null) refuseUncaptured(db, request.tables);
  const present = position(db);
  const end = request.to ?? present;
  if (BigInt(request.from ?? 0) > BigInt(present)) throw wentBack(request.from, present);
  const read = changesOf(db, details, request, BigInt(end));
  return {
    position: end,
    changes: read.changes,
    through_id: read.through === null ? null : String(read.through),
    complete: read.complete,
    chunk: await chunkOf(db, request, read.changes),
    fingerprint: commonFingerprint(details),
    changed: changedOf(db, details, request, read),
  };
}

function changesOf(
  db: Connection,
  details: readonly TableDetail[],
  request: ReadRequest,
  upTo: bigint,
): ReadChanges {
  if (request.from === null) return { changes: [], through: null, complete: true };
  const from = BigInt(request.from);
  const afterId = BigInt(request.after_id ?? 0);
  const above = from > afterId ? from : afterId;
  if (above >= upTo) return { changes: [], through: null, complete: true };
  return readChanges(db, details, request, { above, upTo });
}

async function chunkOf(
  db: Connection,
  { chunk }: ReadRequest,
  changes: readonly Change[],
): Promise<ReadAnswer["chunk"]> {
  if (chunk === null) return null;
  try {
    return await readChunk(db, lookUp(db, chunk.table), chunk, chunk.limit);
  } catch (error) {
    // The request still has the old columns; the change of the schema among the changes says why.
    const isExplained = changes.some(({ op }) => op === "ddl");
    if (isExplained && error instanceof Database.SqliteError) return null;
    throw error;
  }
}

function changedOf(
  db: Connection,
  details: readonly TableDetail[],
  request: ReadRequest,
  { changes, complete }: ReadChanges,
): Digest | null {
  const isPart = (request.to ?? null) !== null || changes.some(({ op }) => op === "ddl");
  if (!complete || isPart) return null;
  const covered = changes.filter((change) => change.covered);
  return digestOfKeys(
    db,
    details.map((detail) => ({
      detail,
      keys: covered.filter(({ table }) => table === detail.shape.table).map(({ key }) => key),
    })),
    request.scope,
  );
}
