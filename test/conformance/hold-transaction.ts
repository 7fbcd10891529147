import { present } from "../../src/kernel/errors.ts";
import { SENSOR_MESSAGES } from "../../src/work/sensor/rows.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import { changesOf, eventsAfter, flushOf, message } from "./builders.ts";

// A process of its own, to be killed: writes inside a transaction, says so, and never commits.
const [kind, where] = process.argv.slice(2);
const place = present(where, "the place is the second argument");
const store =
  kind === "sqlite"
    ? await openSqliteStore({ path: place, clock: Date.now })
    : await openPostgresStore({ url: place, unsafe: true });
const { ws } = await store.workspace("acme", "main");
await store.transact(ws, async (transaction) => {
  const events = eventsAfter(transaction.start, 50);
  const rows = Array.from({ length: 2_000 }, (_, index) => {
    return message({ message_id: `killed ${index}` });
  });
  await transaction.flush(
    flushOf({ events, changes: [changesOf(SENSOR_MESSAGES, { inserted: rows })] }),
  );
  const head = await transaction.head();
  process.stdout.write(`written up to ${head.pos}\n`);
  await new Promise((_resolve) => setInterval(() => undefined, 1_000));
});
