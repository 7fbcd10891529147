import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fetchRange } from "pawl/test";
import { startApi } from "./api.ts";

// Before the project is loaded, so that the test leaves its data alone.
const folder = await mkdtemp(join(tmpdir(), "payments-"));
const api = await startApi(0);
process.env["DATA_DIR"] = folder;
process.env["API_URL"] = api.url;
const { payments } = await import("./pawl.config.ts");
const { closePayments, countPayments } = await import("./payments.ts");
after(async () => {
  api.close();
  closePayments();
  await rm(folder, { recursive: true });
});

test("stores every payment once, although the API answers for few at once", async () => {
  const { status, syncedTo, calls } = await fetchRange(payments, {
    target: { account: "main" },
    from: 1,
    to: 3_000,
  });

  assert.equal(status, "COMPLETE");
  assert.equal(syncedTo, 3_000);
  assert.equal(countPayments(1, 3_000), 3_000);
  assert.ok(calls.length > 6, "It took more requests than one.");
});
