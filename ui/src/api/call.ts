import { ADDRESSES } from "virtual:operations";
import type { CallInput } from "../../../src/client/client.ts";
import type { AnswerOf, OperationName } from "../../../src/work/operations.ts";
import type { FieldProblem, Problem } from "../../../src/work/operation.ts";
import { randomKey } from "./random-key.ts";

/** What the API said no with, or why it could not be asked. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  /** The stable code of the server's problem; `SERVER_UNREACHABLE` when nothing answered. */
  readonly code: string;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>>;
  /** What is wrong with which field of a request; empty when it is not about fields. */
  readonly fields: readonly FieldProblem[];

  constructor(problem: Pick<Problem, "code" | "status" | "detail"> & Partial<Problem>) {
    super(problem.detail);
    this.code = problem.code;
    this.status = problem.status;
    this.details = problem.details ?? {};
    this.fields = problem.errors ?? [];
  }
}

/** Those who want to know when the server no longer takes this browser's word for who it is. */
const signedOutListeners = new Set<() => void>();

/** Calls back whenever the server asks for a token; answers a function that ends it. */
export function onSignedOut(listener: () => void): () => void {
  signedOutListeners.add(listener);
  return () => signedOutListeners.delete(listener);
}

type LooseInput = {
  params?: Record<string, unknown>;
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
};

/** Carries out an operation of the API; throws `Refusal`. */
export async function call<Name extends OperationName>(
  name: Name,
  input: CallInput<Name>,
): Promise<AnswerOf<Name>> {
  const loose = input as LooseInput;
  const address = ADDRESSES[name];
  if (address === undefined) throw new Error(`There is no operation ${name} for the page.`);
  const headers: Record<string, string> = { accept: "application/json" };
  if (address.hasBody) headers["content-type"] = "application/json";
  if (address.creates) headers["idempotency-key"] = loose.idempotencyKey ?? randomKey();
  let response: Response;
  let text: string;
  try {
    response = await fetch(addressOf(name, loose), {
      method: address.method,
      headers,
      body: address.hasBody ? JSON.stringify(loose.body ?? {}) : null,
      signal: loose.signal ?? null,
      credentials: "same-origin",
    });
    text = await response.text();
  } catch (error) {
    if (loose.signal?.aborted === true) throw error;
    throw unreachable();
  }
  if (response.ok) return JSON.parse(text) as AnswerOf<Name>;
  throw refusalOf(response.status, text);
}

/** The path and query of an operation, for links and streams. */
export function addressOf(name: OperationName, input: LooseInput): string {
  const path = (ADDRESSES[name]?.path ?? "").replace(/\{(\w+)\}/g, (_, field: string) =>
    segmentOf(String(input.params?.[field])),
  );
  const query = new URLSearchParams();
  for (const [field, value] of Object.entries(input.query ?? {})) {
    if (value !== undefined && value !== null && value !== "") query.set(field, `${value}`);
  }
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

/** An id in a path. Browsers take `.` and `..` for steps even when encoded; nothing has such a name. */
function segmentOf(id: string): string {
  return /^\.{0,2}$/.test(id) ? `${id}%20` : encodeURIComponent(id);
}

/** What is said when nothing answered. */
export function unreachable(): Refusal {
  return new Refusal({
    code: "SERVER_UNREACHABLE",
    status: 0,
    detail: "The server does not respond. It may be restarting; this page retries automatically.",
  });
}

function refusalOf(status: number, text: string): Refusal {
  let problem: Partial<Problem>;
  try {
    problem = JSON.parse(text) as Partial<Problem>;
  } catch {
    problem = {};
  }
  const { code = "SERVER_UNREACHABLE", detail = `The server answered with ${status}.` } = problem;
  if (status === 401) for (const listener of signedOutListeners) listener();
  return new Refusal({ ...problem, code, status, detail });
}
