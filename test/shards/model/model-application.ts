import { keyText, type ModelData, type ModelRow, type OpenTransaction } from "./model-data.ts";

/** Whether a fence that is written as closed lets writes in again. */
function isOpen(data: ModelData, tenant: string): boolean {
  const fence = data.fences[tenant];
  if (fence === undefined || fence.state === "open") return true;
  return fence.state === "closed" && data.expired.includes(tenant);
}

/** Why a shard refuses a write of a tenant under an epoch; null when it takes it. */
export function refusalOf(
  data: ModelData,
  tenant: string,
  epoch: number,
): "closed" | { epoch: number; shard: string } | null {
  const fence = data.fences[tenant];
  if (fence === undefined) return null;
  if (fence.state === "moved" || fence.state === "incoming" || fence.epoch !== epoch) {
    return { epoch: fence.epoch, shard: fence.shard ?? data.name };
  }
  return isOpen(data, tenant) ? null : "closed";
}

/** Begins a transaction of the application for a tenant that has entered. */
export function begin(data: ModelData, tenant: string): number {
  const xid = data.nextXid++;
  data.open.push({ xid, tenant, writes: [] });
  return xid;
}

/** Whether another transaction holds a row. */
export function isLocked(data: ModelData, xid: number, table: string, key: string): boolean {
  return data.open.some(
    (other) =>
      other.xid !== xid && other.writes.some((each) => each.table === table && each.key === key),
  );
}

/** A row as a transaction sees it. */
export function rowFor(data: ModelData, xid: number, table: string, key: string): ModelRow | null {
  const own = transactionOf(data, xid).writes.findLast(
    (each) => each.table === table && each.key === key,
  );
  return own === undefined ? (data.tables[table]?.rows[key] ?? null) : own.row;
}

/** Writes a row, or deletes it; the change is logged at once and seen at the commit. */
export function write(
  data: ModelData,
  xid: number,
  table: string,
  key: string,
  row: ModelRow | null,
): void {
  const transaction = transactionOf(data, xid);
  transaction.writes.push({ table, key, row });
  if (Object.keys(data.armed).length === 0) return;
  data.log.push({
    id: data.nextId++,
    xid,
    table,
    op: row === null ? "delete" : "put",
    key: key.split("/"),
    tenant: transaction.tenant,
    image: row,
  });
}

/** Commits a transaction: from here on it is acknowledged. */
export function commit(data: ModelData, xid: number): void {
  for (const { table, key, row } of transactionOf(data, xid).writes) put(data, table, key, row);
  end(data, xid);
}

/** Takes a transaction back; its changes are never seen. */
export function rollback(data: ModelData, xid: number): void {
  data.log = data.log.filter((change) => change.xid !== xid);
  end(data, xid);
}

/** Puts a row, or takes it away. */
export function put(data: ModelData, table: string, key: string, row: ModelRow | null): void {
  const rows = data.tables[table]?.rows;
  if (rows === undefined) throw new Error(`There is no table ${table}.`);
  if (row === null) delete rows[key];
  else rows[key] = row;
}

/** The rows of a tenant: by table and key the text of each. */
export function rowsOf(data: ModelData, tenant: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data.tables).flatMap(([table, { key, rows }]) =>
      Object.values(rows)
        .filter((row) => row["tenant"] === tenant)
        .map((row) => [`${table} ${keyText(key, row)}`, row["n"] ?? ""]),
    ),
  );
}

function end(data: ModelData, xid: number): void {
  data.open = data.open.filter((transaction) => transaction.xid !== xid);
}

function transactionOf(data: ModelData, xid: number): OpenTransaction {
  const found = data.open.find((transaction) => transaction.xid === xid);
  if (found === undefined) throw new Error(`Transaction ${xid} is not open.`);
  return found;
}
