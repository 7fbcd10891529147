import { describe, expect, test } from "vitest";
import { RequestSize, SourcePace, SourceGate } from "./source-gate.ts";
import { ManualClock } from "../../../test/manual-clock.ts";
import { rangeTooLarge, sourceUnavailable, throttled } from "../../define/errors.ts";

function succeed(size: RequestSize, times: number): void {
  for (let at = 0; at < times; at++) size.succeeded(size.value ?? 1);
}

describe("RequestSize", () => {
  test("follows a suggestion that is really smaller", () => {
    const size = new RequestSize();
    size.tooLarge(10_000, 2_000);

    expect(size.value).toBe(2_000);
  });

  test.each([null, 10_000, 20_000, 0, -5, Number.NaN, Number.POSITIVE_INFINITY])(
    "halves what was asked for with the suggestion %s",
    (suggested) => {
      const size = new RequestSize();
      size.tooLarge(10_000, suggested);

      expect(size.value).toBe(5_000);
    },
  );

  test("does not follow suggestions step by step that do not hold", () => {
    const size = new RequestSize();
    const seen = [10_000];
    while ((seen.at(-1) ?? 0) > 100) {
      const asked = seen.at(-1) ?? 0;
      size.tooLarge(asked, asked - 1);
      seen.push(size.value ?? 0);
    }

    expect(seen.length).toBeLessThan(20);
  });

  test("counts requests once that were too large together", () => {
    const size = new RequestSize(1_000);
    for (let at = 0; at < 8; at++) size.tooLarge(1_000, null);

    expect(size.value).toBe(500);
  });

  test("never goes below one block", () => {
    const size = new RequestSize(2);
    for (let at = 0; at < 5; at++) size.tooLarge(size.value ?? 0, null);

    expect(size.value).toBe(1);
  });

  test("grows by a quarter after eight successes in a row at its full size", () => {
    const size = new RequestSize(100);
    for (let at = 0; at < 100; at++) size.succeeded(99);
    expect(size.value).toBe(100);
    succeed(size, 7);
    expect(size.value).toBe(100);
    succeed(size, 1);
    expect(size.value).toBe(125);
  });

  test("stays below a size that failed until after a long run of successes", () => {
    const size = new RequestSize(1_000);
    size.tooLarge(1_000, null);
    succeed(size, 63);
    expect(size.value).toBe(999);
    succeed(size, 1);
    expect(size.value).toBe(1_248);
  });

  test("goes back to what was proven when a little more was too much", () => {
    const size = new RequestSize(100);
    succeed(size, 8);
    expect(size.value).toBe(125);
    size.tooLarge(125, null);
    expect(size.value).toBe(100);
    size.tooLarge(100, null);
    expect(size.value).toBe(50);
  });

  test("goes back to what was proven when a little more was not answered, and stays there", () => {
    const size = new RequestSize(100);
    succeed(size, 8);
    expect(size.unanswered(100)).toBe(false);
    expect(size.value).toBe(125);
    expect(size.unanswered(125)).toBe(true);
    expect(size.value).toBe(100);
    expect(size.unanswered(100)).toBe(false);
    succeed(size, 63);
    expect(size.value).toBe(100);
    succeed(size, 1);
    expect(size.value).toBe(125);
  });
});

/** Asks so often, each as soon as it may; every so many times the source complains. */
function askOften(pace: SourcePace, times: number, complainsEvery: number): number {
  let now = 0;
  for (let at = 1; at <= times; at++) {
    now = Math.max(now, pace.nextAt());
    pace.started(now);
    const startedAt = now;
    now += 10;
    if (at % complainsEvery === 0) pace.throttled(startedAt, 0, now);
    else pace.succeeded(startedAt, now);
  }
  return now;
}

describe("the pace of a source", () => {
  test("stays bearable when one request in twenty is refused, however slow it is asked", () => {
    const pace = new SourcePace();
    const tookMs = askOften(pace, 2_000, 20);
    expect(pace.intervalMs).toBeLessThan(2_000);
    expect(tookMs / 2_000).toBeLessThan(1_000);
  });

  test("comes back within minutes from the longest pause", () => {
    const pace = new SourcePace();
    for (let at = 1; at <= 20; at++) pace.slowDown(at, at);
    expect(pace.intervalMs).toBe(60_000);
    let now = 100;
    for (let at = 0; at < 10; at++) {
      now = Math.max(now, pace.nextAt());
      pace.started(now);
      pace.succeeded(now, now + 10);
    }
    expect(pace.intervalMs).toBeLessThan(2_000);
    expect(now).toBeLessThan(5 * 60_000);
  });

  test("does not take the time that a source was left alone for a time that it bore", () => {
    const pace = new SourcePace();
    pace.throttled(0, 600_000, 0);
    const before = pace.intervalMs;
    pace.succeeded(600_000, 600_500);
    expect(pace.intervalMs).toBe(before);
  });

  test("keeps what it was told at first, until it has asked for a while itself", () => {
    const pace = new SourcePace();
    pace.adopt({ intervalMs: 400, restsUntil: Number.NEGATIVE_INFINITY, workers: 2 });
    pace.succeeded(1_000, 1_010);
    expect(pace.intervalMs).toBe(400);
    pace.succeeded(2_900, 2_910);
    expect(pace.intervalMs).toBe(400);
    pace.succeeded(3_000, 3_010);
    expect(pace.intervalMs).toBeCloseTo(360, 0);
  });
});

type Asked = { isLive?: boolean; size?: number | null; signal?: AbortSignal };

function gateWith() {
  const clock = new ManualClock();
  const learnt: number[] = [];
  const gate = new SourceGate({
    source: "mainnet",
    clock,
    wallNow: () => 1_000_000 + clock.now(),
    used: () => undefined,
    learnt: () => learnt.push(clock.now()),
  });
  const starts: [string, number][] = [];
  let beats = 0;
  const ask = (name: string, asked: Asked = {}, fails: unknown = null) => {
    const request = {
      isLive: asked.isLive ?? false,
      size: asked.size ?? null,
      signal: asked.signal ?? new AbortController().signal,
      alive: () => void beats++,
    };
    const answer = gate.ask(request, async () => {
      starts.push([name, clock.now()]);
      if (fails !== null) throw fails;
      return name;
    });
    answer.catch(() => undefined);
    return answer;
  };
  return { clock, gate, ask, starts, learnt, beatCount: () => beats };
}

const unlimited = { request_size: null, interval_ms: 0, throttled_until: null };

describe("SourceGate", () => {
  test("lets everything pass at once while nothing is known", async () => {
    const { clock, ask, starts } = gateWith();
    for (const name of ["a", "b", "c"]) void ask(name);
    await clock.advance(0);

    expect(starts).toEqual([
      ["a", 0],
      ["b", 0],
      ["c", 0],
    ]);
  });

  test("keeps to the requests per second of all workers together", async () => {
    const { clock, gate, ask, starts } = gateWith();
    gate.begin(null, 10);
    gate.adopt(unlimited, 2);
    for (const name of ["a", "b", "c"]) void ask(name);
    await clock.advance(1_000);

    expect(starts.map(([, at]) => at)).toEqual([0, 200, 400]);
  });

  test("lets live requests go first, and others in their order", async () => {
    const { clock, gate, ask, starts } = gateWith();
    gate.begin(null, 10);
    for (const name of ["a", "b", "c"]) void ask(name);
    await clock.advance(50);
    void ask("live", { isLive: true });
    await clock.advance(1_000);

    expect(starts.map(([name]) => name)).toEqual(["a", "live", "b", "c"]);
  });

  test("leaves a share to others while live requests keep coming", async () => {
    const { clock, gate, ask, starts } = gateWith();
    gate.begin(null, 10);
    for (const name of ["a", "b"]) void ask(name);
    for (const name of ["1", "2", "3", "4", "5", "6"]) void ask(name, { isLive: true });
    await clock.advance(1_000);

    expect(starts.map(([name]) => name)).toEqual(["a", "1", "2", "3", "b", "4", "5", "6"]);
  });

  test("asks nothing before a throttled source said, then with a pause that grew", async () => {
    const { clock, gate, ask, starts, learnt } = gateWith();
    await expect(ask("a", {}, throttled("Slow down.", { retryAfterMs: 5_000 }))).rejects.toThrow(
      "Slow down.",
    );
    for (const name of ["b", "c"]) void ask(name);
    await clock.advance(4_999);
    expect(starts).toHaveLength(1);
    expect(gate.learnt()).toEqual({
      request_size: null,
      interval_ms: 20,
      throttled_until: new Date(1_005_000).toISOString(),
    });
    await clock.advance(1_000);

    expect(starts.map(([, at]) => at)).toEqual([0, 5_000, 5_020]);
    expect(learnt).toEqual([0]);
    expect(gate.learnt().throttled_until).toBeNull();
  });

  test("slows down once for requests that were under way together, and quickens slowly", async () => {
    const { clock, gate, ask } = gateWith();
    const slow = throttled("Slow down.", { retryAfterMs: 0 });
    for (let at = 0; at < 5; at++) void ask("a", {}, slow);
    await clock.advance(1);
    expect(gate.learnt().interval_ms).toBe(20);
    for (let at = 0; at < 20; at++) void ask("b");
    await clock.advance(10_000);
    expect(gate.learnt().interval_ms).toBe(18);
  });

  test("leaves a source alone for longer each time that does not say for how long", async () => {
    const { clock, ask, starts } = gateWith();
    for (let at = 0; at < 4; at++) {
      void ask("a", {}, throttled("Slow down."));
      await clock.advance(100_000);
    }
    void ask("b", {}, throttled("Slow down."));
    void ask("c");
    await clock.advance(7_999);
    expect(starts.map(([name]) => name)).not.toContain("c");
    await clock.advance(1);
    expect(starts.map(([name]) => name)).toContain("c");
  });

  test("sends away who would have to wait for long, with the time", async () => {
    const { clock, ask } = gateWith();
    void ask("a", {}, throttled("Come back tomorrow.", { retryAfterMs: 86_400_000 }));
    await clock.advance(0);

    await expect(ask("b")).rejects.toMatchObject({ name: "Throttled", retryAfterMs: 3_600_000 });
  });

  test("shrinks what is asked for when it is too large, and never for any other failure", async () => {
    const { clock, gate, ask } = gateWith();
    gate.begin(1_000, null);
    const failures = [
      throttled("Slow down.", { retryAfterMs: 1 }),
      new DOMException("Too slow.", "TimeoutError"),
      sourceUnavailable("Gone."),
      new Error("?"),
    ];
    for (const failure of failures) void ask("a", { size: 1_000 }, failure);
    await clock.advance(60_000);
    expect(gate.requestSize).toBe(1_000);
    void ask("a", { size: 1_000 }, new Error("?", { cause: rangeTooLarge("Less!") }));
    await clock.advance(60_000);
    expect(gate.requestSize).toBe(500);
  });

  test.each([
    ["takes too long", new DOMException("Too slow.", "TimeoutError")],
    ["does not answer", sourceUnavailable("Gone.")],
  ])("asks for no more than was proven when a source %s for more", async (_what, failure) => {
    const { clock, gate, ask } = gateWith();
    gate.begin(1_000, null);
    for (let at = 0; at < 8; at++) void ask("a", { size: 1_000 });
    await clock.advance(0);
    expect(gate.requestSize).toBe(1_250);
    void ask("a", { size: 1_250 }, failure);
    await clock.advance(0);

    expect(gate.requestSize).toBe(1_000);
  });

  test("takes a timeout for a reason to slow down", async () => {
    const { clock, gate, ask } = gateWith();
    void ask("a", {}, new DOMException("Too slow.", "TimeoutError"));
    await clock.advance(0);

    expect(gate.learnt().interval_ms).toBe(20);
  });

  test("shows life while it makes somebody wait, and lets go at once on abort", async () => {
    const { clock, gate, ask, beatCount, starts } = gateWith();
    gate.begin(null, 0.05);
    const controller = new AbortController();
    void ask("a");
    const waiting = ask("b", { signal: controller.signal });
    await clock.advance(10_000);
    expect(beatCount()).toBe(10);
    controller.abort(new Error("Enough."));
    await expect(waiting).rejects.toThrow("Enough.");
    await clock.advance(60_000);
    expect(starts).toHaveLength(1);
    expect(beatCount()).toBe(10);
  });

  test("takes over what other workers learnt", async () => {
    const { clock, gate, ask, starts } = gateWith();
    gate.adopt(
      { request_size: 70, interval_ms: 100, throttled_until: new Date(1_002_000).toISOString() },
      3,
    );
    for (const name of ["a", "b"]) void ask(name);
    await clock.advance(10_000);

    expect(gate.requestSize).toBe(70);
    expect(starts.map(([, at]) => at)).toEqual([2_000, 2_300]);
  });

  test("does not wait for a time that only a wrong clock can have named", async () => {
    const { clock, gate, ask, starts } = gateWith();
    const throttled_until = "2999-01-01T00:00:00.000Z";
    gate.adopt({ ...unlimited, throttled_until }, 1);
    void ask("a");
    await clock.advance(0);

    expect(starts).toEqual([["a", 0]]);
  });
});
