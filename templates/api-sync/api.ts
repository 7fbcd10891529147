import { createServer, type Server } from "node:http";

/*
 * The API that the project copies, to be replaced by yours: payments, numbered from 1 on, two more every
 * second. Like most, it answers for few at once, and refuses who asks too often.
 *
 *   GET /payments/newest          { "number": 20012 }
 *   GET /payments?from=1&to=500   { "payments": [{ "number": 1, "customer": "c-1", "cents": 4711 }, …] }
 */

/** A payment as the API has it. */
export type Payment = { number: number; customer: string; cents: number };

const PAYMENTS_AT_FIRST = 20_000;
const PAYMENTS_PER_SECOND = 2;
const PAYMENTS_AT_ONCE = 500;
const REQUESTS_PER_SECOND = 20;

/** Starts the API on a port of this machine; 0 is any free one. */
export async function startApi(port: number): Promise<{ url: string; close: () => void }> {
  const startedAt = Date.now();
  let window = { second: 0, requests: 0 };

  function newest(): number {
    return PAYMENTS_AT_FIRST + Math.floor(((Date.now() - startedAt) / 1_000) * PAYMENTS_PER_SECOND);
  }

  /** The status of an answer, and the answer. */
  function answer({ pathname, searchParams }: URL): [number, object] {
    const second = Math.floor(Date.now() / 1_000);
    window = { second, requests: window.second === second ? window.requests + 1 : 1 };
    if (window.requests > REQUESTS_PER_SECOND) return [429, { error: "Too many requests." }];
    if (pathname === "/payments/newest") return [200, { number: newest() }];
    if (pathname !== "/payments") return [404, { error: `There is no ${pathname}.` }];
    const from = Number(searchParams.get("from"));
    const to = Math.min(Number(searchParams.get("to")), newest());
    if (to - from >= PAYMENTS_AT_ONCE) {
      return [413, { error: "That is too much at once.", at_most: PAYMENTS_AT_ONCE }];
    }
    const length = Math.max(0, to - from + 1);
    return [200, { payments: Array.from({ length }, (_, index) => payment(from + index)) }];
  }

  const server = createServer((request, response) => {
    const [status, body] = answer(new URL(request.url ?? "/", "http://localhost"));
    response.writeHead(status, {
      "content-type": "application/json",
      ...(status === 429 ? { "retry-after": "1" } : {}),
    });
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
  });
  return { url: `http://127.0.0.1:${portOf(server)}`, close: () => void server.close() };
}

function payment(number: number): Payment {
  return { number, customer: `c-${number % 97}`, cents: 100 + ((number * 7_919) % 90_000) };
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("It does not listen.");
  return address.port;
}

if (import.meta.main) {
  const { url } = await startApi(Number(process.env["API_PORT"] ?? 7391));
  console.log(`The API listens on ${url}, until you press Ctrl-C.`);
}
