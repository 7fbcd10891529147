import { describe, expect, test } from "vitest";
import { OPERATIONS } from "../../work/operations.ts";
import { openApi } from "./openapi.ts";

const api = openApi("1.2.3");

describe("the OpenAPI document", () => {
  test("has every operation under its name", () => {
    const named = Object.values(api.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => String(operationId)),
    );
    expect(new Set(named)).toEqual(new Set(Object.keys(OPERATIONS)));
  });

  test("refers only to documents it has", () => {
    const text = JSON.stringify(api);
    const referred = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref]) => ref ?? "");
    expect(referred.length).toBeGreaterThan(0);
    for (const ref of referred) {
      expect(Object.keys(api.components.schemas)).toContain(
        ref.replace("#/components/schemas/", ""),
      );
    }
    expect(text).not.toContain("$defs");
  });

  test("declares the headers that requests may have and answers have", () => {
    const at = (path: string) => api.paths[`/api/v1/orchestration${path}`]?.["post"];
    expect(at("/backfills/{backfill_id}/pause")).toMatchObject({
      parameters: expect.arrayContaining([expect.objectContaining({ name: "If-Match" })]) as object,
      responses: { 202: { headers: { "X-Pawl-Pos": {} } } },
    });
    expect(at("/runs")).toMatchObject({
      responses: { 200: { headers: { "Idempotent-Replayed": {}, "X-Pawl-Pos": {} } } },
    });
  });

  test("has flags that are true or false, and no 0 or 1 of a row", () => {
    const flags = new Set(
      (
        "armed auto_cutover cancel_runs committing continue_on_failure dry_run " +
        "failure_limit_reached leftover running undo verify_ok was_quarantined"
      ).split(" "),
    );
    const seen = new Map<string, Set<unknown>>();
    /** Every property of a document and of those in it, by name. */
    const walk = (value: unknown): void => {
      if (typeof value !== "object" || value === null) return;
      const { properties } = value as { properties?: Record<string, { type?: unknown }> };
      for (const [name, field] of Object.entries(properties ?? {})) {
        if (!flags.has(name)) continue;
        seen.set(name, (seen.get(name) ?? new Set()).add(JSON.stringify(field)));
      }
      for (const each of Object.values(value)) walk(each);
    };
    walk(api.components.schemas);
    expect(seen.size).toBeGreaterThan(5);
    for (const [name, types] of seen) {
      // Counts of states and the like are under the same names, so objects are let be.
      const numbers = [...types].filter((type) => /"(?:integer|number)"/.test(String(type)));
      expect(numbers, name).toEqual([]);
    }
  });

  test("says what answers nothing but a stream, and what its messages hold", () => {
    const response = api.paths["/api/v1/orchestration/changes"]?.["get"];
    const schema = {
      type: "string",
      contentMediaType: "application/json",
      contentSchema: { $ref: "#/components/schemas/Change" },
    };
    expect(response?.["responses"]).toMatchObject({
      200: { headers: {}, content: { "text/event-stream": { schema } } },
    });
    expect(response?.["responses"]).not.toMatchObject({
      200: { content: { "application/json": {} } },
    });
    const events = api.paths["/api/v1/orchestration/events"]?.["get"];
    expect(events?.["responses"]).toMatchObject({
      200: { content: { "application/json": {}, "text/event-stream": {} } },
    });
  });

  test("says that a token comes in a header or, from the page, in a cookie", () => {
    expect(api.components.securitySchemes).toMatchObject({
      bearer: { type: "http", scheme: "bearer" },
      cookie: { type: "apiKey", in: "cookie", name: "pawl_session" },
    });
    expect(api.security).toEqual([{}, { bearer: [] }, { cookie: [] }]);
  });

  test("shows the other names of fields beside them, either of which will do", () => {
    const any: unknown = expect.anything();
    const { CreateBackfill, CreateSchedule } = api.components.schemas as Record<string, object>;
    const names = { partition_start: any, partition_end: any };
    const properties: object = expect.objectContaining(names);
    const range: object = expect.objectContaining({ properties });
    expect(CreateBackfill).toMatchObject({
      properties: {
        selector: { oneOf: expect.arrayContaining([range]) as object },
        partition_selector: { description: expect.stringContaining("`selector`") as string },
        backfill_id: {},
      },
      allOf: [{ anyOf: [{ required: ["selector"] }, { required: ["partition_selector"] }] }],
    });
    expect(CreateSchedule).toMatchObject({ properties: { cron: {}, cron_expression: {} } });
    const pause = api.paths["/api/v1/orchestration/backfills/{backfill_id}/pause"]?.["post"];
    expect(pause?.["parameters"]).toContainEqual(
      expect.objectContaining({ name: "expected_state_version", in: "query", required: false }),
    );
  });

  test("says that a tick takes no fields", () => {
    const tick = api.paths["/api/v1/orchestration/tick"]?.["post"];
    const schema = { additionalProperties: false, properties: {} };
    expect(tick?.["requestBody"]).toMatchObject({
      required: false,
      content: { "application/json": { schema } },
    });
  });

  test("says of a list in a query that it is separated by commas", () => {
    const parameters = api.paths["/api/v1/orchestration/runs"]?.["get"]?.["parameters"];
    const status = { name: "status", style: "form", explode: false, required: false };
    expect(parameters).toContainEqual(expect.objectContaining(status));
  });
});
