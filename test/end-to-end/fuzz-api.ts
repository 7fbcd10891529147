import { type Operation, Problem, PROBLEM_TYPE } from "../../src/work/operation.ts";
import { type FuzzedRequest, RequestFuzzer } from "./fuzz-requests.ts";

/** What came of many requests. */
export type FuzzOutcome = {
  requests: number;
  /** How often each status was answered. */
  statuses: Record<string, number>;
  /** The slowest answer, and what it was an answer to. */
  slowest: { ms: number; what: string };
  /** What no client input may bring about, with the request that did. */
  faults: string[];
};

/** How to fuzz a server. */
export type FuzzOptions = {
  url: string;
  seed: number;
  requests: number;
  /** Requests under way at once. */
  parallel?: number;
  /** Hears how far it is, now and then. */
  said?: (requests: number) => void;
};

const FAULTS_MAX = 20;

/** Sends requests that a seed makes up, and holds every answer to the contract. */
export async function fuzzApi(options: FuzzOptions): Promise<FuzzOutcome> {
  const fuzzer = new RequestFuzzer(options.seed);
  const outcome: FuzzOutcome = {
    requests: 0,
    statuses: {},
    slowest: { ms: 0, what: "none" },
    faults: [],
  };
  const sendMany = async (): Promise<void> => {
    while (outcome.requests < options.requests && outcome.faults.length < FAULTS_MAX) {
      outcome.requests++;
      if (outcome.requests % 1_000 === 0) options.said?.(outcome.requests);
      await sendOne(options.url, fuzzer, outcome);
    }
  };
  await Promise.all(Array.from({ length: options.parallel ?? 1 }, sendMany));
  return outcome;
}

async function sendOne(url: string, fuzzer: RequestFuzzer, outcome: FuzzOutcome): Promise<void> {
  const request = fuzzer.next();
  const { method, path, headers, body } = request;
  const startedMs = performance.now();
  let status = "none";
  try {
    const response = await fetch(url + path, { method, headers, body });
    status = String(response.status);
    await checkResponse(request, response, fuzzer);
  } catch (error) {
    outcome.faults.push(`${reasonOf(error)}\n  for ${shown(request)}`);
  }
  outcome.statuses[status] = (outcome.statuses[status] ?? 0) + 1;
  const ms = performance.now() - startedMs;
  if (ms > outcome.slowest.ms) outcome.slowest = { ms, what: shown(request) };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "something that is no error";
  return error.cause === undefined ? error.message : `${error.message}: ${reasonOf(error.cause)}`;
}

async function checkResponse(
  { method, operation }: FuzzedRequest,
  response: Response,
  fuzzer: RequestFuzzer,
): Promise<void> {
  const { status, headers } = response;
  const type = headers.get("content-type") ?? "";
  if (type === "text/event-stream") {
    await response.body?.cancel();
    return;
  }
  const text = await response.text();
  if (status >= 500) throw new Error(`answered ${status}: ${text.slice(0, 300)}`);
  if (headers.get("x-request-id") === null) throw new Error(`${status} without an id`);
  if (method === "HEAD") return;
  const answer: unknown = JSON.parse(text);
  if (!response.ok) {
    if (type !== PROBLEM_TYPE) throw new Error(`a refusal as ${type}`);
    if (Problem.parse(answer).status !== status) throw new Error("a problem of another status");
    return;
  }
  fuzzer.learn(answer);
  if (method === operation.method) checkDocument(operation, answer);
}

function checkDocument({ answer: schema }: Operation, answer: unknown): void {
  const { error } = schema.safeParse(answer);
  if (error === undefined) return;
  const [issue] = error.issues;
  throw new Error(`an answer that is not as promised: ${JSON.stringify(issue).slice(0, 300)}`);
}

function shown({ name, method, path, body }: FuzzedRequest): string {
  const start = body === null ? "" : ` ${body.slice(0, 300)} (${body.length} characters)`;
  return `${name}: ${method} ${path.slice(0, 300)}${start}`;
}
