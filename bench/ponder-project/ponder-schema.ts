import { onchainTable, primaryKey } from "ponder";

/** What is kept of a transfer. */
export const transfer = onchainTable(
  "transfer",
  (type) => ({
    block: type.integer().notNull(),
    logIndex: type.integer().notNull(),
    from: type.hex().notNull(),
    to: type.hex().notNull(),
    value: type.bigint().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.block, table.logIndex] }) }),
);
