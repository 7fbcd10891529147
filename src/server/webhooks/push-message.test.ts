import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type PushRequest, parsePushRequest } from "./push-message.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const base64 = (data: string | Uint8Array): string => Buffer.from(data).toString("base64");
const NOT_UTF8 = Uint8Array.of(0xff, 0xfe);

/** What a request with these headers and this body brings; anything but bytes is sent as JSON. */
function parse(headers: Record<string, string>, body: unknown, withNames = true) {
  const request: PushRequest = {
    headers: (name) => headers[name.toLowerCase()],
    body: body instanceof Uint8Array ? body : bytes(JSON.stringify(body)),
  };
  return parsePushRequest(withNames ? { ...request, headerNames: Object.keys(headers) } : request);
}

function refusal(headers: Record<string, string>, body: unknown): string {
  try {
    return `accepted ${JSON.stringify(parse(headers, body))}`;
  } catch (error) {
    if (error instanceof PawlError && error.code === "INPUT_INVALID") return error.message;
    throw error;
  }
}

const JSON_TYPE = { "content-type": "application/json" };

describe("parsePushRequest of Pub/Sub", () => {
  const envelope = (changes: object = {}, outer: object = {}) => ({
    message: {
      data: base64('{"name":"a"}'),
      messageId: "136969346945",
      message_id: "136969346945",
      publishTime: "2026-02-19T12:00:00.123456789Z",
      publish_time: "2026-02-19T12:00:00.123456789Z",
      attributes: { region: "eu" },
      orderingKey: "k",
      ...changes,
    },
    subscription: "projects/p/subscriptions/s",
    ...outer,
  });
  const payloadOf = (data: string | Uint8Array | undefined) =>
    parse(JSON_TYPE, envelope({ data: data === undefined ? data : base64(data) }))[0]?.payload;

  test("takes the push envelope apart", () => {
    expect(parse(JSON_TYPE, envelope())).toEqual([
      {
        message_id: "136969346945",
        source: "pubsub",
        type: null,
        attributes: { region: "eu", orderingKey: "k" },
        payload: { name: "a" },
        published_at: "2026-02-19T12:00:00.123Z",
        digest_input: {
          type: null,
          attributes: { region: "eu", orderingKey: "k" },
          payload: { name: "a" },
        },
      },
    ]);
  });

  test("needs no more than a message id, and no content type", () => {
    const [message] = parse({}, { message: { message_id: "1" } });
    expect(message).toMatchObject({ message_id: "1", payload: null, attributes: {} });
  });

  test("keeps data as JSON, else as text, else as base64", () => {
    expect(payloadOf("[1]")).toEqual([1]);
    expect(payloadOf("grüße")).toBe("grüße");
    expect(payloadOf("{]")).toBe("{]");
    expect(payloadOf(NOT_UTF8)).toEqual({ base64: "//4=" });
    expect(payloadOf("a\0")).toEqual({ base64: "YQA=" });
    expect(payloadOf("")).toBe(null);
    expect(payloadOf(undefined)).toBe(null);
  });

  test("digests a redelivery as it did the first delivery, and another message otherwise", () => {
    const digest = (body: object) => canonicalJson(parse(JSON_TYPE, body)[0]?.digest_input);
    const first = digest(envelope({}, { deliveryAttempt: 1 }));
    const attributes = { googclient_deliveryattempt: "5", region: "eu" };
    expect(digest(envelope({ attributes }, { deliveryAttempt: 5 }))).toBe(first);
    expect(digest(envelope({ attributes: { region: "us" } }))).not.toBe(first);
    expect(digest(envelope({ data: base64("{}") }))).not.toBe(first);
  });

  test("refuses what Pub/Sub would not send, naming the field", () => {
    const cases: [object, string][] = [
      [{ messageId: undefined, message_id: undefined }, "a message without messageId"],
      [{ messageId: 5 }, "body.message.messageId must be a string, not 5"],
      [{ messageId: "" }, "message.messageId must have at least one character"],
      [{ messageId: "a".repeat(201) }, "at most 200 characters"],
      [{ messageId: "a\u0007" }, "no control characters"],
      [{ messageId: "a\u0085" }, "no control characters"],
      [{ data: "not base64" }, "message.data is not base64"],
      [{ data: 5 }, "body.message.data must be a string"],
      [{ attributes: { a: 1 } }, "body.message.attributes.a must be a string"],
      [
        { publishTime: "yesterday" },
        'message.publishTime must be like 2026-01-31T08:00:00Z, not "',
      ],
    ];
    for (const [changes, sentence] of cases) {
      expect(refusal(JSON_TYPE, envelope(changes))).toContain(sentence);
    }
    expect(refusal(JSON_TYPE, bytes('{"message":{'))).toContain("The body is not JSON");
    expect(refusal(JSON_TYPE, NOT_UTF8)).toContain("not UTF-8");
  });

  test("holds data to the limits of every body", () => {
    const beyond = [
      "9007199254740993",
      '{"__proto__":1}',
      '"\\u0000"',
      "[".repeat(65) + "]".repeat(65),
    ];
    for (const data of beyond) {
      expect(refusal(JSON_TYPE, envelope({ data: base64(data) })), data).not.toContain("accepted");
    }
  });
});

describe("parsePushRequest of CloudEvents", () => {
  const STRUCTURED = { "content-type": "application/cloudevents+json; charset=UTF-8" };
  const BATCH = { "content-type": "Application/CloudEvents-Batch+JSON" };
  const event = (changes: object = {}) => ({
    specversion: "1.0",
    id: "A234",
    source: "/mycontext",
    type: "com.example.someevent",
    time: "2018-04-05T19:31:00+02:00",
    subject: null,
    comexampleothervalue: 5,
    data: { a: true },
    ...changes,
  });
  const BINARY = {
    "ce-specversion": "1.0",
    "ce-id": "A234",
    "ce-source": "/mycontext",
    "ce-type": "com.example.someevent",
  };

  test("takes a structured event apart", () => {
    const attributes = { id: "A234", source: "/mycontext", comexampleothervalue: "5" };
    expect(parse(STRUCTURED, event())).toEqual([
      {
        message_id: '["/mycontext","A234"]',
        source: "cloudevents",
        type: "com.example.someevent",
        attributes,
        payload: { a: true },
        published_at: "2018-04-05T17:31:00.000Z",
        digest_input: { type: "com.example.someevent", attributes, payload: { a: true } },
      },
    ]);
  });

  test("decodes data_base64 by its media type", () => {
    const payload = (data: string | Uint8Array, datacontenttype?: string) =>
      parse(STRUCTURED, event({ data: undefined, data_base64: base64(data), datacontenttype }))[0]
        ?.payload;
    expect(payload("[1]", "application/json")).toEqual([1]);
    expect(payload("[1]", "text/plain")).toBe("[1]");
    expect(payload("[1]")).toEqual([1]);
    expect(payload(NOT_UTF8, "image/png")).toEqual({ base64: "//4=" });
  });

  test("does not read JSON out of a text that is the data", () => {
    expect(parse(STRUCTURED, event({ data: "[1]" }))[0]?.payload).toBe("[1]");
    expect(parse(STRUCTURED, event({ data: undefined }))[0]?.payload).toBe(null);
  });

  test("takes a binary event apart, with its extensions when it is given all names", () => {
    const headers = {
      ...BINARY,
      "ce-subject": "Euro%20%E2%82%AC%20%F0%9F%98%80",
      "ce-comexampleothervalue": "5",
      "ce-not-an-attribute": "x",
      ...JSON_TYPE,
    };
    const [message] = parse(headers, { a: true });
    expect(message).toMatchObject({
      message_id: '["/mycontext","A234"]',
      type: "com.example.someevent",
      published_at: null,
      payload: { a: true },
      attributes: {
        id: "A234",
        source: "/mycontext",
        subject: "Euro € 😀",
        comexampleothervalue: "5",
        datacontenttype: "application/json",
      },
    });
    expect(Object.keys(message?.attributes ?? {})).toHaveLength(5);
    expect(parse(headers, {}, false)[0]?.attributes).not.toHaveProperty("comexampleothervalue");
  });

  test("decodes headers as the HTTP binding says", () => {
    const subject = (value: string) =>
      parse({ ...BINARY, "ce-subject": value }, {})[0]?.attributes["subject"];
    expect(subject('"a \\"b\\" \\\\ c%20d"')).toBe('a "b" \\ c d');
    expect(subject("%e2%82%ac%2525")).toBe("€%25");
    expect(subject("100%")).toBe("100%");
    for (const encoded of ["%C0%A0", "%ff", "%ED%A0%80"]) {
      expect(refusal({ ...BINARY, "ce-subject": encoded }, {})).toContain("not UTF-8");
    }
    expect(refusal({ ...BINARY, "ce-subject": "a%00" }, {})).toContain("NUL");
    expect(refusal({ ...BINARY, "ce-id": "a%0A" }, {})).toContain("no control characters");
  });

  test("keeps any body of a binary event, but JSON must be JSON", () => {
    const payload = (type: string, body: Uint8Array) =>
      parse({ ...BINARY, "content-type": type }, body)[0]?.payload;
    expect(payload("text/plain", bytes("5"))).toBe("5");
    expect(payload("application/xml", bytes("<a/>"))).toBe("<a/>");
    expect(payload("application/octet-stream", NOT_UTF8)).toEqual({ base64: "//4=" });
    expect(parse(BINARY, bytes("5"))[0]?.payload).toBe(5);
    expect(refusal({ ...BINARY, ...JSON_TYPE }, bytes("<a/>"))).toContain("not JSON");
    expect(refusal({ ...BINARY, ...JSON_TYPE }, NOT_UTF8)).toContain("not UTF-8");
  });

  test("takes a batch of up to 100 events in order, also of none", () => {
    const events = Array.from({ length: 101 }, (_, index) => event({ id: `e${index}` }));
    const ids = parse(BATCH, events.slice(1)).map(({ attributes }) => attributes["id"]);
    expect(ids).toEqual(events.slice(1).map(({ id }) => id));
    expect(parse(BATCH, [])).toEqual([]);
    expect(refusal(BATCH, events)).toContain("body must have at most 100 items");
    expect(refusal(BATCH, event())).toContain("body must be an array");
    expect(refusal(BATCH, [event(), event({ id: undefined })])).toContain("body.1.id is missing");
  });

  test("tells events of two sources apart, also where their texts run together", () => {
    const id = (source: string, eventId: string) =>
      parse(STRUCTURED, event({ source, id: eventId }))[0]?.message_id;
    expect(id('a","b', "c")).not.toBe(id("a", 'b","c'));
    expect(id("a", "b")).not.toBe(id("ab", "b"));
  });

  test("digests two deliveries that were traced differently alike", () => {
    const digest = (changes: object) =>
      canonicalJson(parse(STRUCTURED, event(changes))[0]?.digest_input);
    expect(digest({ traceparent: "00-1", tracestate: "x" })).toBe(digest({ traceparent: "00-2" }));
    expect(digest({ subject: "a" })).not.toBe(digest({ subject: "b" }));
  });

  test("refuses an event that breaks the specification, naming the attribute", () => {
    const cases: [object, string][] = [
      [{ specversion: undefined }, "body.specversion is missing"],
      [{ specversion: "0.3" }, 'the specversion "0.3"; send CloudEvents 1.0'],
      [{ specversion: "2.0" }, "send CloudEvents 1.0"],
      [{ id: "" }, "The id of the event must have at least one character"],
      [{ id: "a".repeat(201) }, "The id of the event must have at most 200 characters"],
      [{ source: "a".repeat(201) }, "The source of the event must have at most 200 characters"],
      [{ source: '"'.repeat(200), id: '"'.repeat(200) }, "at most 500 characters"],
      [{ id: "a\n" }, "no control characters"],
      [{ source: 5 }, "body.source must be a string, not 5"],
      [{ time: "2018-04-05" }, "The time of the event must be like"],
      [{ time: "0000-01-01T00:00:00+01:00" }, "The time of the event must be like"],
      [{ extension: {} }, "body.extension must be a text, an integer or a boolean"],
      [{ data_base64: "e30=" }, "data or data_base64, not both"],
      [{ data: undefined, data_base64: "e30" }, "data_base64 is not base64"],
    ];
    for (const [changes, sentence] of cases) {
      expect(refusal(STRUCTURED, event(changes))).toContain(sentence);
    }
    const { "ce-source": _, ...incomplete } = BINARY;
    expect(refusal(incomplete, {})).toContain("The header ce-source of the event is missing");
    for (const type of ["application/cloudevents+avro", "application/cloudevents"]) {
      expect(refusal({ "content-type": type }, event())).toContain(`Events as ${type} are not`);
    }
  });

  test("gives a signed event the same id, whatever the headers say that are not signed", () => {
    const signed = { "webhook-id": "m1" };
    for (const unsigned of [STRUCTURED, JSON_TYPE, { "content-type": "text/plain" }, BINARY, {}]) {
      const headers: Record<string, string> = { ...unsigned, ...signed, "ce-id": "other" };
      expect(parse(headers, event())[0]?.message_id).toBe('["/mycontext","A234"]');
    }
    expect(parse({ ...signed, ...BINARY }, { a: 1 })[0]?.message_id).toBe("m1");
    expect(parse(signed, [event(), event({ id: "B" })])).toHaveLength(2);
  });
});

describe("parsePushRequest of a webhook", () => {
  const WEBHOOK = { "webhook-id": "msg_1" };

  test("takes the header for the id and the body for the payload", () => {
    const payload = { type: "user.created", timestamp: "2022-11-03T20:26:10.344522Z", data: {} };
    expect(parse({ ...WEBHOOK, ...JSON_TYPE }, payload)).toEqual([
      {
        message_id: "msg_1",
        source: "webhook",
        type: "user.created",
        attributes: {},
        payload,
        published_at: "2022-11-03T20:26:10.344Z",
        digest_input: { type: "user.created", attributes: {}, payload },
      },
    ]);
  });

  test("takes a body that is JSON as JSON, and any other as text", () => {
    const payload = (text: string, type = "text/plain") =>
      parse({ ...WEBHOOK, "content-type": type }, bytes(text))[0]?.payload;
    expect(payload('{"a":1}')).toEqual({ a: 1 });
    expect(payload("a=1&b=2")).toBe("a=1&b=2");
    expect(payload("")).toBe(null);
    expect(payload("", "application/json")).toBe(null);
  });

  test("leaves type and time empty where the body has none", () => {
    for (const body of [[], "text", { type: 5, timestamp: "now" }, { timestamp: 1_700_000_000 }]) {
      expect(parse(WEBHOOK, body)[0]).toMatchObject({ type: null, published_at: null });
    }
  });

  test("is a webhook also when its body looks like one of Pub/Sub", () => {
    expect(parse(WEBHOOK, { message: { messageId: "1" } })[0]).toMatchObject({
      message_id: "msg_1",
      source: "webhook",
    });
  });

  test("refuses ids and bodies that cannot be kept", () => {
    expect(refusal({ "webhook-id": "" }, {})).toContain("Webhook-Id must have at least one");
    expect(refusal({ "webhook-id": "a".repeat(201) }, {})).toContain("at most 200 characters");
    expect(refusal({ "webhook-id": "a\tb" }, {})).toContain("no control characters");
    expect(refusal({ ...WEBHOOK, ...JSON_TYPE }, bytes("a=1"))).toContain("not JSON");
    expect(refusal(WEBHOOK, NOT_UTF8)).toContain("not UTF-8");
    expect(refusal(WEBHOOK, bytes("a\0"))).toContain("NUL");
    expect(refusal(WEBHOOK, bytes("1e400"))).toContain("cannot be kept exactly");
    expect(refusal(WEBHOOK, bytes('{"a":9007199254740992}'))).toContain("cannot be kept exactly");
  });
});

describe("parsePushRequest", () => {
  test("says what to send when nothing gives the message an id", () => {
    for (const body of [{}, [], "text", { message: "hello" }, NOT_UTF8, new Uint8Array()]) {
      const sentence = refusal({}, body);
      for (const way of ["Webhook-Id", "ce-id", "application/cloudevents+json", "messageId"]) {
        expect(sentence).toContain(way);
      }
    }
  });

  test("answers any request with messages or a refusal, and never with a bug", () => {
    const header = fc.constantFrom(
      "content-type",
      "webhook-id",
      ...["specversion", "id", "source", "type", "time"].map((name) => `ce-${name}`),
    );
    const value = fc.oneof(
      fc.string({ unit: "binary-ascii" }),
      fc.constantFrom("1.0", "application/json", "application/cloudevents+json", "%ff", '"'),
      fc.constant("application/cloudevents-batch+json"),
    );
    const body = fc.oneof(fc.uint8Array(), fc.json().map(bytes));
    fc.assert(
      fc.property(fc.dictionary(header, value), body, (headers, content) => {
        expect(typeof refusal(headers, content)).toBe("string");
      }),
      { numRuns: 1_000 },
    );
  });
});
