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
