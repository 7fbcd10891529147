import { z } from "zod";
import { BODY_BYTES_MAX, type Operation } from "../../src/work/operation.ts";
import { OPERATIONS } from "../../src/work/operations.ts";
import { Random } from "../simulation/random.ts";

/** A request that nobody in their right mind sends, or that somebody does. */
export type FuzzedRequest = {
  name: string;
  operation: Operation;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | null;
};

type Schema = Record<string, unknown>;

/** Names that may be there, so that requests get past the first look. */
const NAMES = ["report", "sales/orders", "tenants", "fuzz/a", "fuzz/b", "uploads", "nightly"];
const TEXTS = [
  "2025-01-02",
  "2025-01-09",
  "2025-01-02T00:00:00.000Z",
  "0 3 * * *",
  "UTC",
  "*",
  "1",
];
/** Nothing that is sent leaves the machine: these are refused by their address. */
const URLS = ["http://10.0.0.1/hook", "https://127.0.0.1/", "http://[::1]:9/x?key=y"];
const ODD = [null, true, -1, 0, 1.5, 1e308, 2 ** 53, "", " ", "\u0000", "\ud800", "../..", [], {}];

/** Shortest waits: a fuzzer has better things to do. */
const WAITS: Readonly<Record<string, number>> = { wait_ms: 5, timeout_ms: 5 };

/**
 * Makes requests from a seed and the table of operations: what is new in that table is fuzzed by
 * itself. Most are nearly right, so that they get far; some are as large as they may be.
 */
export class RequestFuzzer {
  readonly #random: Random;
  readonly #operations = Object.entries(OPERATIONS) as [string, Operation][];
  readonly #schemas = new Map<z.ZodType, Schema>();
  /** Ids and names that answers had. */
  readonly #seen: string[] = [];

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  /** Learns ids from an answer, for requests to come. */
  learn(answer: unknown): void {
    if (typeof answer !== "object" || answer === null) return;
    for (const [key, value] of Object.entries(answer)) {
      if (typeof value === "object") this.learn(value);
      else if (typeof value === "string" && /(?:_id|^name|_key)$/.test(key)) this.#keep(value);
    }
  }

  #keep(value: string): void {
    if (this.#seen.length < 500) this.#seen.push(value);
    else this.#seen[this.#random.integer(0, 499)] = value;
  }

  next(): FuzzedRequest {
    const random = this.#random;
    const [name, operation] = random.pick(this.#operations);
    const method = random.chance(0.02) ? random.pick(["PUT", "PATCH", "HEAD"]) : operation.method;
    const path = operation.path.replace(/\{\w+\}/g, () => encodeURIComponent(this.#segment()));
    const headers: Record<string, string> = {};
    if (random.chance(0.9)) headers["idempotency-key"] = this.#headerText();
    if (random.chance(0.05)) headers["if-match"] = random.pick(['"1"', "*", "nonsense"]);
    const isBodied = method === "POST" || method === "PUT" || method === "PATCH";
    const body = isBodied ? this.#body(operation) : null;
    if (body !== null && random.chance(0.97)) headers["content-type"] = "application/json";
    if (operation.rawBody === true && random.chance(0.8))
      headers["webhook-id"] = this.#headerText();
    return { name, operation, method, path: path + this.#query(operation), headers, body };
  }

  #segment(): string {
    const text = this.#text().toWellFormed().slice(0, 300);
    // Steps up are no segments to a URL; what becomes of them has a test of its own.
    return /^\.{0,2}$/.test(text) ? "none" : text;
  }

  /** A header holds no more than these characters, or nothing is sent at all. */
  #headerText(): string {
    return this.#text().replace(/[^\x21-\x7e]/g, "k");
  }

  #query(operation: Operation): string {
    const random = this.#random;
    const fields = Object.entries<z.ZodType>(operation.query?.shape ?? {});
    const search = new URLSearchParams();
    for (const [key, field] of fields) {
      if (key in WAITS) search.set(key, String(WAITS[key]));
      else if (random.chance(0.25)) search.set(key, this.#queryText(field));
    }
    if (random.chance(0.03)) search.set(this.#text().slice(0, 50), this.#text());
    return search.size === 0 ? "" : `?${search.toString()}`;
  }

  #queryText(field: z.ZodType): string {
    const value = this.#value(this.#schemaOf(field), 0);
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
    return text.toWellFormed().slice(0, 2_000);
  }

  #body(operation: Operation): string {
    const random = this.#random;
    const bytesMax = operation.bodyBytesMax ?? BODY_BYTES_MAX;
    if (random.chance(0.01)) return this.#garbage(bytesMax);
    const made =
      operation.body === undefined
        ? this.#anything(0)
        : this.#value(this.#schemaOf(operation.body), 0);
    const value = hasty(random.chance(0.3) ? this.#broken(made) : made, operation);
    const text = random.chance(0.02) ? this.#large(value, bytesMax) : JSON.stringify(value);
    return (text ?? "null").slice(0, bytesMax + 100);
  }

  /** As large as it may be, one way or another. */
  #large(value: unknown, bytesMax: number): string {
    const random = this.#random;
    const own = JSON.stringify(value) ?? "{}";
    const room = Math.max(16, bytesMax - own.length - 20);
    const many = (item: string) => item.repeat(Math.floor(room / item.length) - 1);
    const filling = random.pick([
      () => `"${"x".repeat(room - 2)}"`,
      () => `[${many("[],")}[]]`,
      () => `[${many("0,")}0]`,
      () => `[${many('"2025-01-01",')}""]`,
      () => `[${many("{},")}{}]`,
      () => `{${Array.from({ length: Math.floor(room / 14) }, (_, at) => `"k${at}":0`).join(",")}}`,
      () => `{"${"k".repeat(room - 6)}":0}`,
      () => "[".repeat(room / 2) + "]".repeat(room / 2),
    ])();
    if (!own.startsWith("{") || own === "{}") return filling;
    const keys = Object.keys(value as object);
    const key = random.chance(0.7) ? random.pick(keys) : "extra";
    return `${own.slice(0, -1)},${JSON.stringify(key)}:${filling}}`;
  }

  #garbage(bytesMax: number): string {
    const text = this.#random.pick([
      "{",
      "[1,",
      '{"a":1}}',
      "\u0000",
      "nul",
      '"\\ud800"',
      "[[[",
      "x",
    ]);
    return this.#random.chance(0.2) ? text.repeat(Math.floor(bytesMax / text.length)) : text;
  }

  /** The value with something in it changed, left out or added. */
  #broken(value: unknown): unknown {
    const random = this.#random;
    if (typeof value !== "object" || value === null || random.chance(0.1)) return this.#anything(0);
    if (Array.isArray(value))
      return value.map((each) => (random.chance(0.3) ? this.#broken(each) : each));
    const members = { ...(value as Record<string, unknown>) };
    const keys = Object.keys(members);
    const key = keys.length === 0 ? "extra" : random.pick(keys);
    const how = random.weighted({ change: 3, remove: 1, add: 1 });
    if (how === "remove") delete members[key];
    else if (how === "add") members[this.#text().slice(0, 40) || "extra"] = this.#anything(0);
    else members[key] = this.#broken(members[key]);
    return members;
  }

  #schemaOf(schema: z.ZodType): Schema {
    let found = this.#schemas.get(schema);
    if (found === undefined) {
      found = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
      this.#schemas.set(schema, found);
    }
    return found;
  }

  #value(schema: Schema, depth: number, root: Schema = schema): unknown {
    const random = this.#random;
    if (depth > 12) return null;
    const reference = schema["$ref"];
    if (typeof reference === "string")
      return this.#value(resolved(root, reference), depth + 1, root);
    if ("const" in schema) return schema["const"];
    const choices = (schema["enum"] ?? schema["anyOf"] ?? schema["oneOf"]) as unknown[] | undefined;
    if (choices !== undefined) {
      const choice = random.pick(choices);
      return schema["enum"] === undefined ? this.#value(choice as Schema, depth + 1, root) : choice;
    }
    switch (schema["type"]) {
      case "object":
        return this.#object(schema, depth, root);
      case "array": {
        const places = (schema["prefixItems"] ?? []) as Schema[];
        const first = places.map((place) => this.#value(place, depth + 1, root));
        // A tuple has `false` here: nothing may follow.
        if (schema["items"] === false) return first;
        const items = (schema["items"] ?? {}) as Schema;
        const least = Number(schema["minItems"] ?? 0);
        const length = Math.max(
          least,
          random.weighted({ "0": 1, "1": 3, "2": 2, "5": 1 }) as never,
        );
        const others = Array.from({ length }, () => this.#value(items, depth + 1, root));
        return [...first, ...others];
      }
      case "string":
        return this.#string(schema);
      case "integer":
      case "number":
        return this.#number(schema);
      case "boolean":
        return random.chance(0.5);
      case "null":
        return null;
      default:
        return this.#anything(depth);
    }
  }

  #object(schema: Schema, depth: number, root: Schema): unknown {
    const random = this.#random;
    const properties = (schema["properties"] ?? {}) as Record<string, Schema>;
    const required = new Set((schema["required"] ?? []) as string[]);
    const made: Record<string, unknown> = {};
    for (const [key, member] of Object.entries(properties)) {
      if (!required.has(key) && !random.chance(0.35)) continue;
      if (key in WAITS) made[key] = WAITS[key];
      else if (key === "url") made[key] = random.pick(URLS);
      else made[key] = this.#value(member, depth + 1, root);
    }
    const others = schema["additionalProperties"];
    if (typeof others === "object" && others !== null && random.chance(0.5)) {
      made[this.#text().slice(0, 100)] = this.#value(others as Schema, depth + 1, root);
    }
    return made;
  }

  #string(schema: Schema): string {
    const random = this.#random;
    const most = Number(schema["maxLength"] ?? 2_000);
    if (schema["format"] === "date-time") return "2025-01-02T03:04:05Z";
    if (random.chance(0.03)) return "x".repeat(most);
    if (schema["pattern"] !== undefined && random.chance(0.85)) return random.pick(NAMES);
    return this.#text().slice(0, most);
  }

  #number(schema: Schema): number {
    const random = this.#random;
    const least = Math.max(Number(schema["minimum"] ?? -1_000), -1_000_000);
    const most = Math.min(Number(schema["maximum"] ?? 1_000_000), 1_000_000);
    const edge = random.pick([least, most, least + 1]);
    const value = random.chance(0.3) ? edge : random.integer(least, Math.min(most, least + 20));
    return schema["type"] === "integer" ? Math.floor(value) : value + 0.25;
  }

  #text(): string {
    const random = this.#random;
    const kind = random.weighted({ seen: 5, name: 4, text: 2, odd: 1 });
    if (kind === "seen" && this.#seen.length > 0) return random.pick(this.#seen);
    if (kind === "text") return random.pick(TEXTS);
    if (kind !== "odd") return random.pick(NAMES);
    const length = random.integer(0, 30);
    return Array.from({ length }, () => String.fromCharCode(random.integer(0, 0xffff))).join("");
  }

  #anything(depth: number): unknown {
    const random = this.#random;
    if (depth > 3 || random.chance(0.5)) return random.pick([...ODD, this.#text()]);
    const inner = Array.from({ length: random.integer(0, 3) }, () => this.#anything(depth + 1));
    return random.chance(0.5)
      ? inner
      : Object.fromEntries(inner.map((each, at) => [`k${at}`, each]));
  }
}

/** The body with the shortest waits that it can ask for, where it would wait longer by default. */
function hasty(value: unknown, { body }: Operation): unknown {
  if (!(body instanceof z.ZodObject) || typeof value !== "object" || value === null) return value;
  const waits = Object.entries(WAITS).filter(([key]) => key in body.shape);
  return Array.isArray(value) ? value : { ...value, ...Object.fromEntries(waits) };
}

function resolved(root: Schema, reference: string): Schema {
  let found: unknown = root;
  for (const step of reference.replace(/^#\/?/, "").split("/")) {
    if (step !== "") found = (found as Schema)[step];
  }
  return (found ?? {}) as Schema;
}
