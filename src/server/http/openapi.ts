import { z } from "zod";
import {
  type Aliases,
  isConditional,
  type Operation,
  queryOf,
  takesKey,
  Problem,
  PROBLEM_TYPE,
} from "../../work/operation.ts";
import { OPERATIONS } from "../../work/operations.ts";
import { COOKIE_NAME } from "./authenticate.ts";

type Schema = Record<string, unknown>;

/** An OpenAPI document, as far as this server reads it itself. */
export type OpenApi = {
  openapi: "3.1.0";
  info: { title: string; version: string; description: string };
  security: Schema[];
  paths: Record<string, Record<string, Schema>>;
  components: { schemas: Schema; securitySchemes: Schema };
};

/** The OpenAPI document of everything that the server can do. */
export function openApi(version: string): OpenApi {
  const schemas: Schema = {};
  const paths: OpenApi["paths"] = {};
  const problem = schemaOf(Problem, "output", schemas);
  for (const [name, operation] of Object.entries(OPERATIONS) as [string, Operation][]) {
    const path = (paths[operation.path] ??= {});
    path[operation.method.toLowerCase()] = operationObject(name, operation, problem, schemas);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Pawl",
      version,
      description:
        "Durable backfills. Documents are in snake_case; every answer says in `X-Pawl-Pos` which " +
        "position of the ledger it reflects; errors are problem documents with a stable `code`.",
    },
    security: [{}, { bearer: [] }, { cookie: [] }],
    paths,
    components: {
      schemas,
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        cookie: { type: "apiKey", in: "cookie", name: COOKIE_NAME },
      },
    },
  };
}

function operationObject(
  name: string,
  operation: Operation,
  problem: Schema,
  schemas: Schema,
): Schema {
  const answer = schemaOf(operation.answer, "output", schemas);
  const content = contentOf(operation, answer);
  const headers = headersOf(operation);
  const responses: Schema = {
    [operation.status]: { description: operation.summary, headers, content },
    default: {
      description: "The request was refused",
      content: { [PROBLEM_TYPE]: { schema: problem } },
    },
  };
  if (takesKey(operation)) {
    const description = "The answer to the same request before";
    const replayed = { description: "Always `true`.", schema: { type: "string", const: "true" } };
    responses["200"] = {
      description,
      headers: { ...headers, "Idempotent-Replayed": replayed },
      content,
    };
  }
  if (operation.rawBody === true) {
    const description = "Everything in it had been received before";
    responses["200"] = { description, headers, content };
  }
  return {
    operationId: name,
    summary: operation.summary,
    tags: [tagOf(operation.path)],
    "x-pawl-verb": operation.verb,
    parameters: parametersOf(operation, schemas),
    ...(operation.body === undefined
      ? rawBodyOf(operation)
      : {
          requestBody: {
            required: !operation.body.safeParse({}).success,
            content: {
              "application/json": { schema: bodySchema(operation, schemas) },
            },
          },
        }),
    responses,
  };
}

/** The body of an operation that takes bytes as they are. */
function rawBodyOf({ rawBody }: Operation): Schema {
  if (rawBody === undefined) return {};
  return { requestBody: { required: true, content: { "*/*": { schema: {} } } } };
}

function contentOf({ streams }: Operation, answer: Schema): Schema {
  if (streams === undefined) return { "application/json": { schema: answer } };
  const text = { type: "string" };
  if (streams === "only") {
    const schema = { ...text, contentMediaType: "application/json", contentSchema: answer };
    return { "text/event-stream": { schema } };
  }
  return { "application/json": { schema: answer }, "text/event-stream": { schema: text } };
}

/** The headers of an answer: where in the ledger it stands, for all that is about the ledger. */
function headersOf({ verb, streams }: Operation): Schema {
  if (streams === "only") return {};
  if (verb === null || verb === "work" || verb === "admin") return {};
  const description = "The position of the ledger that the answer reflects.";
  return { "X-Pawl-Pos": { description, schema: { type: "integer", minimum: 0 } } };
}

/** What an operation is about: what is below `orchestration`, else the area of its path. */
function tagOf(path: string): string {
  const [, , , area, resource] = path.split("/");
  return (area === "orchestration" ? resource : area) ?? "server";
}

function parametersOf(operation: Operation, schemas: Schema): Schema[] {
  const parameters: Schema[] = [];
  for (const [place, object] of [
    ["path", operation.params],
    ["query", queryOf(operation)],
  ] as const) {
    for (const [name, field] of Object.entries(object?.shape ?? {})) {
      const schema = schemaOf(field as z.ZodType, "output", schemas);
      const isOptional = (field as z.ZodType).safeParse(undefined).success;
      const list = schema["type"] === "array" ? { style: "form", explode: false } : {};
      parameters.push({ name, in: place, required: !isOptional, schema, ...list });
    }
  }
  if (takesKey(operation)) {
    const description =
      operation.keyField === undefined
        ? ""
        : `\`${operation.keyField}\` in the body says the same.`;
    parameters.push({
      name: "Idempotency-Key",
      in: "header",
      required: operation.creates === true && operation.keyField === undefined,
      description: `Names the request, so that a repeat gets the first answer. ${description}`,
      schema: { type: "string", minLength: 1, maxLength: 200 },
    });
  }
  if (isConditional(operation)) {
    parameters.push({
      name: "If-Match",
      in: "header",
      required: false,
      description:
        'The state version that the change is for, such as `"3"`; refused with 412 when it has ' +
        "moved on. `expected_state_version` says the same.",
      schema: { type: "string" },
    });
  }
  return parameters;
}

/**
 * The schema of an object with the other names of its fields beside them; of a choice of objects, in
 * each that has the field.
 */
function withAliases(schema: unknown, aliases: Aliases): unknown {
  if (Array.isArray(schema)) return schema.map((each) => withAliases(each, aliases));
  if (typeof schema !== "object" || schema === null) return schema;
  const { oneOf, anyOf, properties, required, ...rest } = schema as Schema & {
    required?: string[];
  };
  if (oneOf !== undefined || anyOf !== undefined) {
    const choice = oneOf === undefined ? { anyOf } : { oneOf };
    const [[kind, list]] = Object.entries(choice) as [[string, unknown]];
    return { ...rest, [kind]: withAliases(list, aliases) };
  }
  const fields: Schema = { ...(properties as Schema | undefined) };
  const choices: Schema[] = [];
  let needed = required ?? [];
  for (const [name, { also = [], within }] of Object.entries(aliases)) {
    if (fields[name] === undefined) continue;
    if (within !== undefined) fields[name] = withAliases(fields[name], within);
    const description = `The same as \`${name}\`; both at once must say the same.`;
    for (const other of also) fields[other] = { ...(fields[name] as Schema), description };
    if (also.length === 0 || !needed.includes(name)) continue;
    needed = needed.filter((each) => each !== name);
    choices.push({ anyOf: [name, ...also].map((each) => ({ required: [each] })) });
  }
  return {
    ...rest,
    properties: fields,
    ...(needed.length === 0 ? {} : { required: needed }),
    ...(choices.length === 0 ? {} : { allOf: choices }),
  };
}

/** The schema of a body, also under the other names of its fields. */
function bodySchema({ body, aliases }: Operation, schemas: Schema): Schema {
  const schema = schemaOf(body as z.ZodType, "input", schemas);
  if (aliases === undefined) return schema;
  const { $ref: ref } = schema;
  if (typeof ref !== "string") return withAliases(schema, aliases) as Schema;
  const name = ref.replace("#/components/schemas/", "");
  schemas[name] = withAliases(schemas[name], aliases);
  return schema;
}

/** The JSON Schema of a schema; what has an id goes among the components and is referred to. */
function schemaOf(schema: z.ZodType, io: "input" | "output", schemas: Schema): Schema {
  const {
    $schema: _,
    $defs,
    ...own
  } = z.toJSONSchema(schema, {
    io,
    target: "draft-2020-12",
  }) as Schema & { $defs?: Schema };
  for (const [name, definition] of Object.entries($defs ?? {})) {
    schemas[name] = referring(definition);
  }
  const { id } = own;
  if (typeof id !== "string") return referring(own) as Schema;
  schemas[id] = referring(own);
  return { $ref: `#/components/schemas/${id}` };
}

function referring(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(referring);
  if (typeof value !== "object" || value === null) return value;
  const copy: Schema = {};
  for (const [key, member] of Object.entries(value)) {
    if (key === "id" && typeof member === "string") continue;
    copy[key] =
      key === "$ref" && typeof member === "string"
        ? member.replace("#/$defs/", "#/components/schemas/")
        : referring(member);
  }
  return copy;
}
