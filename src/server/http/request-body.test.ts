import { describe, expect, test } from "vitest";
import { bodyDeadlineMs, checkContentType, parseBody, Reception } from "./request-body.ts";

describe("parseBody", () => {
  test("takes no body for an empty object", () => {
    expect(parseBody("", false, 1_000)).toEqual({});
  });

  test("refuses what is no JSON", () => {
    expect(() => parseBody("{]", false, 1_000)).toThrow("The body is not JSON");
  });

  test("takes 64 levels and refuses one more", () => {
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
    expect(() => parseBody(nested(64), false, 1_000)).not.toThrow();
    expect(() => parseBody(nested(65), false, 1_000)).toThrow("64 levels");
    expect(() => parseBody(nested(500_000), false, 1_000)).toThrow("64 levels");
  });

  test("I64: takes so many values and refuses one more, and keys that are too long", () => {
    const list = (length: number) => JSON.stringify(Array.from({ length }, () => []));
    expect(() => parseBody(list(100), false, 1_000)).not.toThrow();
    expect(() => parseBody(list(501), false, 1_000)).toThrow("more than 1000 values");
    const keyed = (length: number) => `{"${"k".repeat(length)}":1}`;
    expect(() => parseBody(keyed(2_000), false, 1_000)).not.toThrow();
    expect(() => parseBody(keyed(2_001), false, 1_000)).toThrow("at most 2000");
  });

  test("refuses text that not every database keeps, wherever it stands", () => {
    for (const text of ['"a\\u0000"', '["\\ud800"]', '{"a":{"b":"\\u0000"}}', '{"\\u0000":1}']) {
      expect(() => parseBody(text, false, 1_000), text).toThrow(/NUL/);
    }
  });

  test("mends such text when told to", () => {
    expect(parseBody('{"items":[{"message":"a\\u0000b\\ud800"}]}', true, 1_000)).toEqual({
      items: [{ message: "a\uFFFDb\uFFFD" }],
    });
  });

  test("refuses the key __proto__", () => {
    expect(() => parseBody('{"a":{"__proto__":{}}}', true, 1_000)).toThrow("__proto__");
  });
});

describe("checkContentType", () => {
  test("takes JSON in its forms and nothing else", () => {
    for (const type of [
      "application/json",
      "Application/JSON; charset=utf-8",
      "application/a+json",
    ]) {
      expect(() => checkContentType(type), type).not.toThrow();
    }
    for (const type of [undefined, "text/plain", "application/x-www-form-urlencoded", "json"]) {
      expect(() => checkContentType(type), type).toThrow("application/json");
    }
  });
});

/** A body that sends what it is told to, and ends when it is told to. */
function body() {
  let control: ReadableStreamDefaultController<Uint8Array> | null = null;
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      control = controller;
    },
  });
  return {
    stream,
    send: (bytes: number) => control?.enqueue(new Uint8Array(bytes)),
    end: () => control?.close(),
    fail: () => control?.error(new Error("gone")),
  };
}

const outcomeOf = (received: Promise<Uint8Array>) =>
  received.then(
    ({ byteLength }) => byteLength,
    (error: { code: string; details: { status?: number } }) =>
      `${error.code} ${error.details.status ?? ""}`,
  );

describe("Reception", () => {
  test("gives what came in, and holds nothing afterwards", async () => {
    const reception = new Reception({ bodies: 2, bytes: 100 });
    const sent = body();
    const received = reception.receive(sent.stream, { bytesMax: 50, sender: "a" });
    sent.send(20);
    sent.send(30);
    sent.end();
    expect(await outcomeOf(received)).toBe(50);
    expect(await outcomeOf(reception.receive(null, { bytesMax: 1, sender: "a" }))).toBe(0);
    expect(reception.held).toEqual({ bodies: 0, bytes: 0 });
  });

  test("I64: refuses what is too large, cut off or too slow", async () => {
    const reception = new Reception({ bodies: 9, bytes: 100 });
    const [large, cut, slow] = [body(), body(), body()];
    const options = { bytesMax: 50, sender: "a" };
    const outcomes = [
      outcomeOf(reception.receive(large.stream, options)),
      outcomeOf(reception.receive(cut.stream, options)),
      outcomeOf(reception.receive(slow.stream, { ...options, deadlineMs: 1 })),
    ];
    large.send(51);
    cut.send(1);
    cut.fail();
    slow.send(1);
    expect(await Promise.all(outcomes)).toEqual([
      "INPUT_INVALID 413",
      "INPUT_INVALID ",
      "OVERLOADED 408",
    ]);
    expect(reception.held).toEqual({ bodies: 0, bytes: 0 });
  });

  test("I64: gives up the one that has been on its way longest when there are too many", async () => {
    const reception = new Reception({ bodies: 2, bytes: 1_000 });
    const bodies = [body(), body(), body(), body()];
    const outcomes = bodies.map(({ stream }) =>
      outcomeOf(reception.receive(stream, { bytesMax: 50, sender: "a" })),
    );
    expect(await Promise.all(outcomes.slice(0, 2))).toEqual(["OVERLOADED 503", "OVERLOADED 503"]);
    for (const each of bodies.slice(2)) {
      each.send(7);
      each.end();
    }
    expect(await Promise.all(outcomes.slice(2))).toEqual([7, 7]);
  });

  test("I64: gives up one of the sender that takes up most memory, not of the others", async () => {
    const reception = new Reception({ bodies: 10, bytes: 100 });
    const [greedy, second, modest] = [body(), body(), body()];
    const first = outcomeOf(reception.receive(modest.stream, { bytesMax: 50, sender: "worker" }));
    const third = outcomeOf(reception.receive(greedy.stream, { bytesMax: 60, sender: "reader" }));
    const last = outcomeOf(reception.receive(second.stream, { bytesMax: 60, sender: "reader" }));
    modest.send(10);
    greedy.send(50);
    second.send(45);
    expect(await third).toBe("OVERLOADED 503");
    modest.end();
    second.end();
    expect(await first).toBe(10);
    expect(await last).toBe(45);
    expect(reception.held).toEqual({ bodies: 0, bytes: 0 });
  });

  test("gives larger bodies more time", () => {
    expect(bodyDeadlineMs(1_024)).toBe(10_002);
    expect(bodyDeadlineMs(16_777_216)).toBe(42_000);
  });
});
