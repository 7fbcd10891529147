import type { Stock, TenantRows } from "./live-tables.ts";

/** What an account has to have, as far as writes were acknowledged. */
export type BookedAccount = {
  readonly account: number;
  n: number;
  readonly entries: Map<number, string | null>;
  /** One writer at a time, so that what it has to have is known exactly. */
  isBusy: boolean;
  /** Nobody knows whether the last write was committed, so nobody writes to it any more. */
  isUnknown: boolean;
};

/** What a tenant has to have. The account 0 is shared: everybody adds to it at any time. */
export class TenantBook {
  readonly tenant: string;
  readonly accounts: BookedAccount[];
  /** What was added to the shared account, and what perhaps was. */
  shared = 0;
  sharedPerhaps = 0;
  acknowledged = 0;
  underWay = 0;

  constructor(tenant: string, { accounts, entries }: Omit<Stock, "tenants">) {
    this.tenant = tenant;
    this.accounts = Array.from({ length: accounts }, (_, at) => ({
      account: at + 1,
      n: entries,
      entries: new Map(Array.from({ length: entries }, (_each, n) => [n + 1, "first"])),
      isBusy: false,
      isUnknown: false,
    }));
  }

  /** What is told of it at the end. */
  told(): ToldBook {
    const known = this.accounts.filter(({ isUnknown }) => !isUnknown);
    return {
      tenant: this.tenant,
      shared: [this.shared, this.shared + this.sharedPerhaps],
      unknown: this.accounts.filter(({ isUnknown }) => isUnknown).map(({ account }) => account),
      accounts: known.map(({ account, n }) => [account, n]),
      entries: known.flatMap(({ account, entries }) =>
        [...entries]
          .toSorted(([one], [other]) => one - other)
          .map(([number, note]): TenantRows["entries"][number] => [account, number, note]),
      ),
      acknowledged: this.acknowledged,
    };
  }
}

/** A book as one process tells it to another. */
export type ToldBook = TenantRows & {
  tenant: string;
  shared: [least: number, most: number];
  unknown: number[];
  acknowledged: number;
};

/** How a tenant's rows differ from its book; empty when they do not. */
export function differences(book: ToldBook, rows: TenantRows): string[] {
  const found: string[] = [];
  const [[, shared] = [0, -1]] = rows.accounts.filter(([account]) => account === 0);
  const [least, most] = book.shared;
  if (shared < least || shared > most) {
    found.push(`${book.tenant}: the shared account has ${shared}, not ${least} to ${most}`);
  }
  const skipped = new Set([0, ...book.unknown]);
  const kept = (list: readonly (readonly [number, ...unknown[]])[]): Set<string> =>
    new Set(list.filter(([account]) => !skipped.has(account)).map((row) => JSON.stringify(row)));
  for (const table of ["accounts", "entries"] as const) {
    const [wanted, actual] = [kept(book[table]), kept(rows[table])];
    const lost = [...wanted].filter((row) => !actual.has(row));
    const strange = [...actual].filter((row) => !wanted.has(row));
    found.push(...lost.map((row) => `${book.tenant}: ${table} lacks ${row}`));
    found.push(...strange.map((row) => `${book.tenant}: ${table} has ${row}`));
  }
  return found;
}
