import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { EvmLogsOptions } from "../../src/evm/index.ts";
import { TRANSFER } from "./anvil.ts";
import { type OddNode, startOddNode, TOKEN, WALLET } from "./odd-node.ts";
import { blocks, contextOf } from "./recorded-context.ts";
import { walletSource } from "./wallet-source.ts";

const LENGTH = 5_000;
const ZERO_BLOOM = `0x${"0".repeat(512)}`;
const FULL_BLOOM = `0x${"f".repeat(512)}`;

let node: OddNode;

beforeAll(async () => {
  node = await startOddNode(LENGTH, 2);
});
afterAll(() => node.close());
beforeEach(() => {
  node.oddities = { bloom: ZERO_BLOOM };
  node.called.clear();
  node.requests = 0;
});

function source(options: Partial<EvmLogsOptions<typeof TRANSFER>> = {}) {
  const logs = () => ({ address: TOKEN, event: TRANSFER, args: { to: WALLET } });
  return walletSource(node.url, TOKEN, { logs, ...options });
}

const context = () => contextOf({ wallet: WALLET });

describe("a node whose blooms are not maintained", () => {
  test("is believed where they are all empty", async () => {
    const { fetch, rows, verify } = source();
    await fetch(blocks(0, 99), context());

    expect(rows()).toHaveLength(200);
    expect(await verify(blocks(0, 99), context())).toMatchObject({ ok: true });
  });

  test("is refused where they announce everything, and taken without the check", async () => {
    node.oddities = { bloom: FULL_BLOOM };
    await expect(source().fetch(blocks(0, 9), context())).rejects.toThrow('bloomCheck: "never"');

    const { fetch, rows, verify } = source({ bloomCheck: "never", count: async () => 20 });
    await fetch(blocks(0, 9), context());
    expect(rows()).toHaveLength(20);
    expect(await verify(blocks(0, 9), context())).toMatchObject({ ok: true });
  });

  test.each([[undefined], [null], ["0x"], ["0x00"]])(
    "is refused with advice where they are %j, and taken without the check",
    async (bloom) => {
      node.oddities = { bloom };
      await expect(source().fetch(blocks(0, 9), context())).rejects.toThrow('bloomCheck: "never"');

      const { fetch, rows, hash } = source({ bloomCheck: "never" });
      await fetch(blocks(0, 9), context());
      expect(rows()).toHaveLength(20);
      expect(await hash(9, context())).toMatch(/^0x0+a$/);
    },
  );
});

describe("a node that ends connections", () => {
  test("is asked once more where it ended one that was kept, as the next request came", async () => {
    const known = new Set<unknown>();
    let ended = 0;
    node.oddities.answer = ({ socket }) => {
      if (!known.has(socket)) {
        known.add(socket);
        return false;
      }
      ended += 1;
      socket.destroy();
      return true;
    };
    const { fetch, rows } = source();
    for (const from of [0, 10, 20]) await fetch(blocks(from, from + 9), context());
    expect(rows()).toHaveLength(60);
    expect(ended).toBeGreaterThan(0);
  });

  test("is not asked for ever", async () => {
    node.oddities.answer = ({ socket }) => {
      socket.destroy();
      return true;
    };
    await expect(source().fetch(blocks(0, 9), context())).rejects.toThrow("cannot be reached");
    expect(node.requests).toBeLessThan(50);
  });
});

describe("verify", () => {
  test("reads no headers but the last where it is told to trust the node", async () => {
    const { verify } = source({ bloomCheck: "never", count: async () => 2_000 });
    expect(await verify(blocks(0, 999), context())).toEqual({
      ok: true,
      note: "2000 logs are stored.",
    });
    expect(node.called.get("eth_getBlockByNumber")).toBe(1);
  });

  test("asks for nothing where there is nothing to compare", async () => {
    const { verify } = source({ bloomCheck: "never" });

    expect(await verify(blocks(0, 999), context())).toMatchObject({ ok: true });
    expect(node.requests).toBe(0);
  });

  test("checks the history too where only the head is checked by itself", async () => {
    await source({ bloomCheck: "live" }).verify(blocks(0, 999), context());

    expect(node.called.get("eth_getBlockByNumber")).toBeGreaterThan(999);
  });

  test("shows that it goes on after each part, so that a long one is not taken for stalled", async () => {
    const said: number[] = [];
    const progressTo = async (block: number): Promise<void> => void said.push(block);
    await source().verify(blocks(0, LENGTH - 1), { ...context(), progressTo });

    expect(said).toEqual([1_999, 3_999, 4_999]);
  });
});

describe("a node that takes no batches", () => {
  test.each<[what: string, status: number, body: string]>([
    ["a status and a page", 400, "<html>Bad Request</html>"],
    ["a status and nothing", 405, ""],
    ["a status and its own words", 422, '{"message":"expected an object"}'],
    [
      "an error about parameters",
      200,
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"invalid params"}}',
    ],
  ])("and says so by %s is asked call by call", async (_what, status, body) => {
    node.oddities = {
      bloom: ZERO_BLOOM,
      answer: (_request, calls, response) => {
        if (!Array.isArray(calls)) return false;
        response.writeHead(status, { "content-type": "application/json" });
        response.end(body);
        return true;
      },
    };
    const { fetch, rows } = source();
    await fetch(blocks(0, 9), context());

    expect(rows()).toHaveLength(20);
  });
});

test("I64: a redirect is not followed, wherever it leads", async () => {
  const elsewhere = await startOddNode(LENGTH, 2);
  node.oddities = {
    answer: (_request, _calls, response) => {
      response.writeHead(307, { location: elsewhere.url });
      response.end();
      return true;
    },
  };
  await expect(source().fetch(blocks(0, 9), context())).rejects.toMatchObject({
    name: "SourceUnavailable",
    message: expect.stringContaining("with a redirect (307), which is not followed"),
  });
  expect(elsewhere.requests).toBe(0);
  await elsewhere.close();
});

test("I64: of what a node says only the beginning is kept and matched", async () => {
  const said = "limit ".repeat(200_000);
  node.oddities = {
    answer: (_request, calls, response) => {
      const error = { code: -32_000, message: said };
      const reply = (id: unknown) => ({ jsonrpc: "2.0", id, error });
      const ids = [calls].flat().map((call) => (call as { id: unknown }).id);
      response.end(JSON.stringify(Array.isArray(calls) ? ids.map(reply) : reply(ids[0])));
      return true;
    },
  };
  const failure = await source()
    .fetch(blocks(0, 9), context())
    .catch((error: unknown) => error);
  expect((failure as Error).message.length).toBeLessThan(1_100);
});

test("a node that is asked too often is not asked for the rest of a page", async () => {
  node.oddities = {
    bloom: ZERO_BLOOM,
    answer: (_request, calls, response) => {
      if (!Array.isArray(calls) || calls.length < 100) return false;
      response.writeHead(429, { "retry-after": "7" });
      response.end("{}");
      return true;
    },
  };
  const fetched = source().fetch(blocks(0, 1_999), context());

  await expect(fetched).rejects.toMatchObject({ name: "Throttled", retryAfterMs: 7_000 });
  expect(node.requests).toBeLessThanOrEqual(5);
});

test("a node that wants a name and a password gets them from the address", async () => {
  const seen: (string | undefined)[] = [];
  node.oddities = {
    bloom: ZERO_BLOOM,
    answer: ({ headers }) => {
      seen.push(headers.authorization);
      return false;
    },
  };
  const { head } = source({ rpc: node.url.replace("//", "//us%65r:p%40ss@") });
  await head(context());

  expect(seen).toEqual([`Basic ${Buffer.from("user:p@ss").toString("base64")}`]);
});

test("two logs in one place are refused, and none of them is dropped", async () => {
  node.oddities = { bloom: ZERO_BLOOM, log: (log) => ({ ...log, logIndex: "0x0" }) };
  const { fetch, pages } = source({ bloomCheck: "never" });

  await expect(fetch(blocks(0, 9), context())).rejects.toThrow(
    "The node gave two logs as log 0 of block 0",
  );
  expect(pages).toEqual([]);
});

test("a target without an address for its node says so", async () => {
  const rpc = ({ network }: Readonly<Record<string, string>>) =>
    (({ main: node.url }) as Record<string, string>)[network ?? ""] as string;

  await expect(source({ rpc }).head(context())).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining(WALLET),
  });
});
