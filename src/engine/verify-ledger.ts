import { hash as nodeDigest, createHash } from "node:crypto";
import { canonicalJson } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { type AnyRecorded, foldingOf } from "../core/fold/fold.ts";
import { type AnyRow, type AnyTable, type Key, keyOf } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import { openSqliteStore } from "../store/sqlite/store.ts";
import type { Head, Reader, Store, Workspace } from "../store/store.ts";
import { nodeHash } from "./node-hash.ts";
import { ChainCheck, folded, ledgerPages, mayBePassedOver, Refold } from "./refold.ts";

/** Rows that one read brings. */
const ROWS_READ = 5_000;

/** What a verification found to be in order. */
export type Verified = { events: number; state_hash: string; tables: Record<string, string> };

/**
 * Checks a workspace from its first event: the hash chain, and that folding all events anew gives
 * exactly the rows there are. Throws `LEDGER_CORRUPT` with the first bad position or table.
 */
export async function verifyLedger(
  store: Store,
  workspace: Workspace,
  options: { onProgress?: (pos: number, head: number) => void } = {},
): Promise<Verified> {
  const scratch = await openSqliteStore({ path: ":memory:", clock: () => 0 });
  try {
    const { ws } = await scratch.workspace(workspace.tenant_id, workspace.workspace_id);
    const verified = await store.read(workspace.ws, async (reader) => {
      const head = await reader.head();
      await refoldInto(scratch, ws, reader, head, workspace, options.onProgress);
      const tables = await stateHashes(reader);
      const expected = await scratch.read(ws, stateHashes);
      for (const [table, hash] of Object.entries(expected)) {
        if (tables[table] === hash) continue;
        throw new PawlError(
          "LEDGER_CORRUPT",
          `The rows of ${table} are not what the ledger says. Run \`pawl rebuild\` to fold them anew.`,
          { details: { table } },
        );
      }
      return { events: head.pos, tables, state_hash: stateHashOf(tables) };
    });
    await store.saveVerifiedPos(workspace.ws, verified.events);
    return verified;
  } finally {
    await scratch.close();
  }
}

async function refoldInto(
  scratch: Store,
  ws: number,
  reader: Reader,
  head: Head,
  workspace: Workspace,
  onProgress: ((pos: number, head: number) => void) | undefined,
): Promise<void> {
  const chain = ChainCheck.fromStart(workspace, nodeHash);
  await scratch.transact(ws, async (transaction) => {
    const refold = new Refold({
      load: (table, keys) => transaction.load(table, keys),
      write: (changes) => transaction.writeRows(changes),
    });
    for await (const page of ledgerPages(reader, 0, head.pos)) {
      for (const event of page) chain.check(event);
      const events = page.filter((event) => !mayBePassedOver(event));
      const recorded = events.map(folded);
      for (const [index, event] of recorded.entries()) {
        checkSubject(event, events[index]?.subject_pos);
      }
      await refold.fold(recorded);
      onProgress?.(chain.pos, head.pos);
    }
  });
  chain.checkHead(head);
}

/** The subject is not hashed, as it follows from the data: it is checked against that. */
function checkSubject(event: AnyRecorded, filedUnder: number | undefined): void {
  if (foldingOf(event.type).subject(event.data, event.pos) === filedUnder) return;
  throw new PawlError(
    "LEDGER_CORRUPT",
    `The ledger is damaged at position ${event.pos}: it is filed under another subject.`,
    { details: { pos: event.pos } },
  );
}

/** The hash of every table's rows, in key order and canonical form: equal rows, equal hash, in any store. */
export async function stateHashes(reader: Reader): Promise<Record<string, string>> {
  const hashes: Record<string, string> = {};
  for (const table of Object.values(TABLES)) hashes[table.name] = await tableHash(reader, table);
  return hashes;
}

/** One hash over all tables. */
export function stateHashOf(tables: Record<string, string>): string {
  return nodeDigest("sha256", canonicalJson(tables), "hex");
}

async function tableHash(reader: Reader, table: AnyTable): Promise<string> {
  const digest = createHash("sha256");
  const order = table.key.map((cell) => ({ cell }));
  let after: Key | null = null;
  for (;;) {
    const where = after === null ? [] : [{ cells: table.key, is: "after", key: after } as const];
    const rows: AnyRow[] = await reader.find({ table, where, order, limit: ROWS_READ });
    for (const row of rows) digest.update(`${canonicalJson(row)}\n`);
    const last = rows.at(-1);
    if (rows.length < ROWS_READ || last === undefined) return digest.digest("hex");
    after = keyOf(table, last);
  }
}

/** Checks the part of the ledger that came since it was last verified, as a server does at its start. */
export async function verifyTail(store: Store, workspace: Workspace): Promise<void> {
  const verified = await store.verifiedPos(workspace.ws);
  const pos = await store.read(workspace.ws, async (reader) => {
    const head = await reader.head();
    const [before] = verified === 0 ? [] : await reader.events({ after: verified - 1, limit: 1 });
    const chain =
      before === undefined
        ? ChainCheck.fromStart(workspace, nodeHash)
        : new ChainCheck(workspace, nodeHash, before);
    for await (const events of ledgerPages(reader, chain.pos, head.pos)) {
      for (const event of events) chain.check(event);
    }
    chain.checkHead(head);
    return head.pos;
  });
  if (pos > verified) await store.saveVerifiedPos(workspace.ws, pos);
}
