import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, publish, startApi } from "./api-server.ts";
import { fuzzApi } from "./fuzz-api.ts";

let api: Api;

beforeAll(async () => {
  api = await startApi();
  await publish(api.client);
});

afterAll(() => api.close());

describe("requests that a seed makes up", () => {
  test("I61: are all answered as the contract says, with no 5xx among them", async () => {
    const { requests, faults, statuses } = await fuzzApi({ url: api.url, seed: 1, requests: 600 });
    expect(faults).toEqual([]);
    expect(requests).toBe(600);
    // It gets beyond the first look, or it would find nothing.
    expect((statuses["200"] ?? 0) + (statuses["202"] ?? 0)).toBeGreaterThan(50);
    expect(api.logged).toEqual([]);
  });
});
