import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/manual-clock.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Learnt, SourceExchange } from "../../work/probe-protocol.ts";
import { rangeTooLarge } from "../../define/errors.ts";
import { SourceGates } from "./source-gates.ts";

const nothing: Learnt = { request_size: null, interval_ms: 0, throttled_until: null };
const definition = { requestSize: null, requestsPerSecond: null };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

function gatesWith(answer: (source: string) => { learnt: Learnt; workers: number } | PawlError) {
  const clock = new ManualClock();
  const exchanges: (SourceExchange & { at: number })[] = [];
  const gates = new SourceGates({
    connection: {
      async exchangeSources(request) {
        exchanges.push({ ...request, at: clock.now() });
        const sources = request.sources.map(({ source }) => {
          const given = answer(source);
          if (given instanceof PawlError) throw given;
          return { source, ...given };
        });
        return { sources };
      },
    },
    workerId: "worker",
    logger: quiet,
    clock,
    wallNow: () => clock.now(),
  });
  const { signal } = new AbortController();
  const open = async (source: string) => {
    const opening = gates.gateOf(source, definition, signal);
    await clock.advance(0);
    return opening;
  };
  const request = { isLive: false, size: 100, signal, alive: () => undefined };
  return { clock, exchanges, gates, open, request };
}

describe("SourceGates", () => {
  test("asks what others know before the first request", async () => {
    const { open, exchanges } = gatesWith(() => ({
      learnt: { ...nothing, request_size: 50 },
      workers: 2,
    }));
    const gate = await open("mainnet");

    expect(gate.requestSize).toBe(50);
    expect(exchanges).toMatchObject([
      { worker_id: "worker", sources: [{ source: "mainnet", learnt: null }] },
    ]);
    expect(await open("mainnet")).toBe(gate);
    expect(exchanges).toHaveLength(1);
  });

  test("tells what was learnt soon, all of it at once, and then keeps in touch", async () => {
    const { clock, open, exchanges, request } = gatesWith(() => ({ learnt: nothing, workers: 1 }));
    const [a, b] = [await open("a"), await open("b")];
    const before = exchanges.length;
    for (const gate of [a, b]) {
      void gate.ask(request, () => Promise.reject(rangeTooLarge("Less!"))).catch(() => undefined);
    }
    await clock.advance(300);
    expect(exchanges.slice(before)).toMatchObject([
      { sources: [{ learnt: { request_size: 50 } }, { learnt: { request_size: 50 } }] },
    ]);
    await clock.advance(60_000);

    const later = exchanges.slice(before + 1);
    expect(later.length).toBeGreaterThan(0);
    expect(later.length).toBeLessThan(4);
    expect(later[0]?.sources[0]?.learnt).toBeNull();
  });

  test("goes by itself while the server is away, and tells it later", async () => {
    let isAway = true;
    const away = new PawlError("SERVER_UNREACHABLE", "Nobody is there.");
    const { clock, open, exchanges, request } = gatesWith(() =>
      isAway ? away : { learnt: nothing, workers: 1 },
    );
    const gate = await open("a");
    void gate.ask(request, () => Promise.reject(rangeTooLarge("Less!"))).catch(() => undefined);
    await clock.advance(6_000);
    expect(gate.requestSize).toBe(50);
    isAway = false;
    await clock.advance(6_000);

    expect(exchanges.at(-1)?.sources[0]?.learnt).toMatchObject({ request_size: 50 });
  });

  test("asks about more sources than fit into one message, all of them", async () => {
    const { clock, gates, exchanges } = gatesWith(() => ({ learnt: nothing, workers: 1 }));
    const { signal } = new AbortController();
    const names = Array.from({ length: 2_500 }, (_, at) => `source-${at}`);
    const opening = Promise.all(names.map((name) => gates.gateOf(name, definition, signal)));
    await clock.advance(0);
    await opening;

    expect(exchanges.map(({ sources }) => sources.length)).toEqual([1_000, 1_000, 500]);
  });
});
