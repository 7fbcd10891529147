import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { PartInput } from "../../src/work/operations.ts";
import type { Store } from "../../src/store/store.ts";
import { type Api, startApi, work } from "./api-server.ts";

/** More than a decision may load one by one. */
const MANY = 1_000;

const names = Array.from({ length: MANY }, (_, index) => `a${index}`);
type Specs = PartInput<"publishDefinitions", "body">["specs"];
const assets: Specs = names.map((asset_key) => ({ kind: "asset", asset_key, partitions: null }));
const cron = "0 * * * *";
const schedules: Specs = names.map((name) => {
  return { kind: "schedule", name, cron, asset_selection: [name] };
});
const sensors: Specs = names.map((name) => {
  return { kind: "sensor", name, mode: "push", target: { asset_selection: [name] } };
});

/** Of several dimensions, one whose keys are added: it varies slower in one, faster in the other. */
const grids: Specs = [
  {
    kind: "asset",
    asset_key: "by-region",
    partitions: {
      type: "multi",
      dimensions: {
        customer: { type: "dynamic", name: "customers" },
        region: { type: "static", keys: ["eu", "us"] },
      },
    },
  },
  {
    kind: "asset",
    asset_key: "by-tier",
    partitions: {
      type: "multi",
      dimensions: {
        customer: { type: "dynamic", name: "customers" },
        tier: { type: "static", keys: ["free", "paid"] },
      },
    },
  },
  {
    kind: "asset",
    asset_key: "by-date",
    partitions: {
      type: "multi",
      dimensions: {
        customer: { type: "dynamic", name: "customers" },
        a_date: { type: "daily", start: "2026-01-01" },
      },
    },
  },
];
const customers = Array.from({ length: 3 * MANY }, (_, index) => `customer-${index}`);

/** What customers are made into, each by the same key; all that is asked for at once is one task. */
const partitions = { type: "dynamic", name: "customers" } as const;
const madeOfCustomers: Specs = [
  { kind: "asset", asset_key: "customers", partitions },
  {
    kind: "asset",
    asset_key: "report",
    partitions,
    batch: true,
    upstream: [{ asset_key: "customers", mapping: { type: "identity" } }],
  },
];

let folder: string;
let api: Api;

/** A server that has nothing in memory yet. */
function open(): Promise<Api> {
  return startApi({ folder, clockAt: "2026-03-01T09:30:00.000Z", actsByItself: false });
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-many-"));
  const first = await open();
  const specs = [...assets, ...schedules, ...sensors, ...grids, ...madeOfCustomers] satisfies Specs;
  await first.client.call("publishDefinitions", { body: { specs } });
  await first.client.call("addPartitionKeys", {
    params: { asset_key: "customers" },
    body: { keys: customers },
  });
  await first.close();
});

afterAll(() => rmSync(folder, { recursive: true }));

beforeEach(async () => {
  api = await open();
});

afterEach(() => api.close());

/** Every second key that was added: no two of them stand beside each other. */
const scattered = customers.filter((_, index) => index % 2 === 0);

/** A backfill of some customers; nothing of it is planned while the server does not act. */
function backfillOf(partition_keys: string[], chunk_size: number) {
  const selector = { type: "explicit" as const, partition_keys };
  const body = { assets: ["customers"], selector, chunk_size, allow_overlap: true };
  return api.client.call("createBackfill", { body });
}

/** How often the store is asked for rows while something is read. */
async function looksOf(store: Store, body: () => Promise<unknown>): Promise<number> {
  let looks = 0;
  const read = store.read.bind(store);
  store.read = (ws, look) =>
    read(ws, (reader) =>
      look(
        new Proxy(reader, {
          get(target, name) {
            if (name === "load" || name === "find") looks += 1;
            const member: unknown = Reflect.get(target, name, target);
            return typeof member === "function" ? member.bind(target) : member;
          },
        }),
      ),
    );
  try {
    await body();
    return looks;
  } finally {
    store.read = read;
  }
}

test("a run may be of a thousand assets", async () => {
  const { outcome } = await api.client.call("requestRun", { body: { assets: names } });
  expect(outcome).toBe("created");
});

test("a backfill may be of a thousand assets", async () => {
  const body = { assets: names, selector: { type: "all" } } as const;
  const made = await api.client.call("createBackfill", { body });
  expect(made.asset_selection).toHaveLength(MANY);
});

test("a schedule may be of a thousand assets, and ticks", async () => {
  const body = { name: "all", cron, asset_selection: names };
  await api.client.call("createSchedule", { body });
  await api.close();
  api = await open();
  const params = { schedule_id: "all" };
  const { run_id } = await api.client.call("triggerSchedule", { params, body: {} });
  expect(run_id).toMatch(/^run_/);
});

test("a webhook may name a thousand assets", async () => {
  const { state } = await api.client.call("createWebhook", {
    body: {
      name: "all",
      url: "https://example.org/",
      notifications: ["run.failed"],
      assets: names,
    },
  });
  expect(state).toBe("ACTIVE");
});

test("a thousand schedules and as many sensors are changed by one publish", async () => {
  const specs = [
    ...assets,
    ...schedules.map((spec) => ({ ...spec, description: "changed" })),
    ...sensors.map((spec) => ({ ...spec, enabled: false })),
  ];
  const { changed } = await api.client.call("publishDefinitions", { body: { specs } });
  expect(changed).toHaveLength(2 * MANY);
});

test.each([
  ["by-region", { type: "all" }],
  ["by-region", { type: "stale", limit: 10_000 }],
  ["by-date", { type: "tick_time" }],
] as const)(
  "a schedule of %s ticks for thousands of keys that were added: %j",
  async (asset, selection) => {
    const name = `${asset}-${selection.type}`;
    const body = { name, cron, asset_selection: [asset], selection };
    await api.client.call("createSchedule", { body });
    const params = { schedule_id: name };
    const { run_id, backfill_id } = await api.client.call("triggerSchedule", { params, body: {} });
    expect(run_id ?? backfill_id).not.toBeNull();
  },
);

test("I64: pages of keys cost a handful of look-ups, however many scattered ones they show", async () => {
  const { backfill_id } = await backfillOf(scattered, 100);
  const few = await backfillOf(scattered.slice(0, 2), 1);
  const looksOfPage = (id: string) =>
    looksOf(api.store, () =>
      api.client.call("listChunks", { params: { backfill_id: id }, query: { limit: 100 } }),
    );
  const looks = await looksOfPage(backfill_id);
  expect(looks).toBe(await looksOfPage(few.backfill_id));
  expect(looks).toBeLessThan(10);

  const page = await api.client.call("listChunks", { params: { backfill_id }, query: {} });
  const keys = page.items.flatMap((chunk) => chunk.partition_keys);
  expect(keys).toEqual(scattered);

  const params = { backfill_id, chunk_index: 3 };
  const ofChunk = await looksOf(api.store, async () => {
    const { items } = await api.client.call("listChunkPartitions", {
      params,
      query: { limit: 100 },
    });
    expect(items.map(({ partition_key }) => partition_key)).toEqual(scattered.slice(300, 400));
  });
  expect(ofChunk).toBeLessThan(10);
});

test("I64: a page of chunks that were surveyed costs a handful of look-ups, however many it shows", async () => {
  const looksOfPage = async (order: "ascending" | "descending", limit: number) => {
    const selector = { type: "stale" } as const;
    const body = { assets: ["customers"], selector, order, chunk_size: 10, allow_overlap: true };
    const { backfill_id } = await api.client.call("createBackfill", { body });
    const looks = await looksOf(api.store, async () => {
      const params = { backfill_id };
      const { items } = await api.client.call("listChunks", { params, query: { limit } });
      const keys = items.flatMap(({ partition_keys }) => partition_keys);
      expect(new Set(keys).size).toBe(10 * limit);
      expect(keys.includes("customer-0")).toBe(order === "ascending");
    });
    return looks;
  };
  for (const order of ["ascending", "descending"] as const) {
    expect(await looksOfPage(order, 100)).toBe(await looksOfPage(order, 5));
  }
});

test("a chunk of more scattered keys than a decision may load one by one is planned", async () => {
  const { backfill_id } = await backfillOf(scattered, scattered.length);
  await api.close();
  api = await startApi({ folder, clockAt: "2026-03-01T09:30:00.000Z" });
  const params = { backfill_id };
  await expect
    .poll(() => api.client.call("listChunks", { params, query: {} }))
    .toMatchObject({ items: [{ state: "PLANNED", partition_count: scattered.length }] });
});

test("backfills of thousands of scattered keys are compared, also when keys were added between", async () => {
  const inTier = (tier: string) => scattered.map((key) => `customer=${key},tier=${tier}`);
  const create = (partition_keys: string[]) => {
    const selector = { type: "explicit" as const, partition_keys };
    return api.client.call("createBackfill", { body: { assets: ["by-tier"], selector } });
  };
  await create(inTier("free"));
  const params = { asset_key: "customers" };
  await api.client.call("addPartitionKeys", { params, body: { keys: ["customer-late"] } });
  await api.close();
  api = await open();
  expect(await create(inTier("paid"))).toMatchObject({ total_partitions: scattered.length });
  await expect(create(inTier("free").slice(-1))).rejects.toMatchObject({
    code: "BACKFILL_OVERLAPS",
  });
});

test("I64: what follows from thousands of keys upstream costs a handful of look-ups", async () => {
  const made = customers.filter((_, index) => index % 2 === 0);
  await api.client.call("requestRun", { body: { assets: ["report"], partition_keys: made } });
  await work(api.client, "SUCCEEDED");
  const params = { asset_key: "report" };
  const looksOfList = (limit: number) =>
    looksOf(api.store, async () => {
      const { items } = await api.client.call("listAssetPartitions", { params, query: { limit } });
      expect(items.map(({ status }) => status).slice(0, 3)).toEqual([
        "MATERIALIZED",
        "NEVER_MATERIALIZED",
        "MATERIALIZED",
      ]);
    });
  const looks = await looksOfList(200);
  expect(looks).toBe(await looksOfList(5));
  expect(looks).toBeLessThan(15);

  const summary = await looksOf(api.store, () =>
    api.client.call("summarizePartitions", { params, query: {} }),
  );
  // Five hundred keys at a time, each time a dozen.
  expect(summary).toBeLessThan(120);

  // A decision that looks at more than it may load one by one.
  const selection = { type: "stale", limit: 10_000 } as const;
  const body = { name: "stale-report", cron, asset_selection: ["report"], selection };
  await api.client.call("createSchedule", { body });
  const schedule = { schedule_id: "stale-report" };
  const tick = await api.client.call("triggerSchedule", { params: schedule, body: {} });
  expect(tick.run_id ?? tick.backfill_id).not.toBeNull();
});

test("I64, I63: pages of long documents are short, and together hold everything once", async () => {
  const config = { text: "x".repeat(290_000) };
  const made: string[] = [];
  for (let index = 0; index < 20; index++) {
    const body = { assets: ["a0"], config };
    made.unshift((await api.client.call("requestRun", { body })).run_id);
  }
  const { pos } = await api.client.call("listRuns", { query: { limit: 1 } });
  for (const filter of [{}, { asset: "a0" }]) {
    const found: string[] = [];
    let next: { cursor?: string } | null = {};
    while (next !== null) {
      const query: PartInput<"listRuns", "query"> = { limit: 200, ...filter, ...next };
      const { items, next_cursor } = await api.client.call("listRuns", { query });
      expect(JSON.stringify(items).length).toBeLessThan(4_100_000);
      found.push(...items.map(({ run_id }) => run_id));
      next = next_cursor === null ? null : { cursor: next_cursor };
    }
    expect(found.slice(0, made.length)).toEqual(made);
    expect(new Set(found).size).toBe(found.length);
  }
  const positions: number[] = [];
  let before: number | null = pos + 1;
  while (before !== null) {
    const query: PartInput<"listEvents", "query"> = { limit: 200, descending: "true", before };
    const { items, next_before } = await api.client.call("listEvents", { query });
    expect(JSON.stringify(items).length).toBeLessThan(4_500_000);
    positions.push(...items.map((event) => event.pos));
    before = next_before;
  }
  expect(positions).toEqual(Array.from({ length: pos }, (_, index) => pos - index));
  let followed = 0;
  for await (const event of api.client.follow({ after: 0 })) {
    followed += 1;
    expect(event.pos).toBe(followed);
    if (followed === pos) break;
  }
});
