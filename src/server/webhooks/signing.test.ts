import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { newWebhookSecret, signWebhook, verifyWebhook } from "./signing.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SENT_SECONDS = 1_614_265_330;
const BODY = bytes('{"test": 2432232314}');
/** The signature that the specification's own libraries expect for the values above. */
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

type Changes = {
  headers?: Record<string, string | undefined>;
  body?: Uint8Array;
  secrets?: readonly string[];
  nowMs?: number;
  toleranceMs?: number;
};

function verify({ headers = {}, ...changes }: Changes = {}) {
  const all: Record<string, string | undefined> = {
    "webhook-id": ID,
    "webhook-timestamp": `${SENT_SECONDS}`,
    "webhook-signature": SIGNATURE,
    ...headers,
  };
  return verifyWebhook({
    headers: (name) => all[name.toLowerCase()],
    body: BODY,
    secrets: [SECRET],
    nowMs: SENT_SECONDS * 1000,
    ...changes,
  });
}

const refusal = (changes: Changes): string => {
  const verdict = verify(changes);
  return verdict.ok ? "accepted" : verdict.reason;
};

describe("signWebhook", () => {
  const sign = (changes: object = {}) =>
    signWebhook({ id: ID, timestampSeconds: SENT_SECONDS, body: BODY, secret: SECRET, ...changes });

  test("signs as the specification's own libraries do", () => {
    expect(sign()).toBe(SIGNATURE);
  });

  test("refuses an id that could be taken for an id and a time", () => {
    for (const id of ["a.1", "", "a b", "a\n", "é"]) {
      expect(() => sign({ id }), id).toThrow("without a full stop");
    }
  });

  test("refuses a time that is not whole seconds", () => {
    for (const timestampSeconds of [1.5, -1, Number.NaN, 1e15]) {
      expect(() => sign({ timestampSeconds })).toThrow("whole seconds");
    }
  });

  test("refuses a malformed secret without repeating it", () => {
    const malformed = [
      "",
      SECRET.slice("whsec_".length),
      "whsec_c2hvcnQ=",
      `whsec_${"A".repeat(88)}`,
      `${SECRET}*`,
    ];
    for (const secret of malformed) {
      expect(() => sign({ secret }), secret).toThrow(
        "A webhook secret must be `whsec_` and the base64 of 24 to 64 bytes.",
      );
    }
  });
});

describe("newWebhookSecret", () => {
  test("makes a new secret of 32 bytes each time", () => {
    const [one, other] = [newWebhookSecret(), newWebhookSecret()];
    expect(one).not.toBe(other);
    expect(one).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  });
});

describe("verifyWebhook", () => {
  test("believes what was signed, and gives its id", () => {
    expect(verify()).toEqual({ ok: true, id: ID });
  });

  test("names the header that is missing", () => {
    for (const name of ["Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"]) {
      const sentence = `The header ${name} is missing.`;
      expect(refusal({ headers: { [name.toLowerCase()]: undefined } })).toBe(sentence);
      expect(refusal({ headers: { [name.toLowerCase()]: "" } })).toBe(sentence);
    }
  });

  test("refuses a time that is no number, also where JavaScript would read one", () => {
    for (const text of ["soon", "1e9", "-1", "0x10", "1614265330.0", " 1614265330"]) {
      expect(refusal({ headers: { "webhook-timestamp": text } }), text).toContain(
        `not ${JSON.stringify(text)}`,
      );
    }
  });

  test("takes what is 300 s old or new, and says by how much more is too much", () => {
    const at = (seconds: number) => ({ nowMs: (SENT_SECONDS + seconds) * 1000 });
    expect(verify(at(300)).ok).toBe(true);
    expect(verify(at(-300)).ok).toBe(true);
    expect(refusal(at(301))).toContain("signed 301 s ago; at most 300 s");
    expect(refusal(at(-301))).toContain("signed 301 s in the future; at most 300 s");
    expect(refusal({ ...at(11), toleranceMs: 10_000 })).toContain("at most 10 s");
  });

  test("refuses another id, time, body or secret", () => {
    const mismatches: Changes[] = [
      { headers: { "webhook-id": "msg_other" } },
      { headers: { "webhook-timestamp": `${SENT_SECONDS + 1}` } },
      { body: bytes('{"test":2432232314}') },
      { secrets: [newWebhookSecret()] },
      { secrets: [] },
    ];
    for (const changes of mismatches) expect(refusal(changes)).toContain("No signature");
  });

  test("refuses an id with a full stop, which could be part of another message", () => {
    const secret = newWebhookSecret();
    const body = bytes(`${SENT_SECONDS}.hello`);
    const signature = signWebhook({ id: "a", timestampSeconds: 5, body, secret });
    const headers = { "webhook-id": "a.5", "webhook-signature": signature };
    expect(refusal({ headers, body: bytes("hello"), secrets: [secret] })).toContain("full stop");
  });

  test("believes any of several signatures made with any of several secrets", () => {
    const list = `v1a,xyz v1,AAAA nonsense  ${SIGNATURE}`;
    const secrets = [newWebhookSecret(), SECRET];
    expect(verify({ headers: { "webhook-signature": list }, secrets }).ok).toBe(true);
  });

  test("believes only signatures of the version it knows", () => {
    const base64 = SIGNATURE.slice("v1,".length);
    for (const text of [base64, `v1a,${base64}`, `v2,${base64}`, `V1,${base64}`, "v1,"]) {
      expect(refusal({ headers: { "webhook-signature": text } }), text).toContain("No signature");
    }
  });

  test("throws for a malformed secret of its own", () => {
    expect(() => verify({ secrets: ["hunter2"] })).toThrow("A webhook secret must be");
  });

  test("believes the bytes that were signed, whatever they are, and no others", () => {
    const secret = newWebhookSecret();
    fc.assert(
      fc.property(fc.uint8Array(), fc.nat(), fc.integer({ min: 1, max: 255 }), (body, at, flip) => {
        const signature = signWebhook({ id: "m1", timestampSeconds: SENT_SECONDS, body, secret });
        const headers = { "webhook-id": "m1", "webhook-signature": signature };
        expect(verify({ headers, body, secrets: [secret] }).ok).toBe(true);

        const changed = new Uint8Array(body.length === 0 ? 1 : body.length);
        changed.set(body);
        const index = at % changed.length;
        changed[index] = (changed[index] ?? 0) ^ flip;
        expect(verify({ headers, body: changed, secrets: [secret] }).ok).toBe(false);
      }),
    );
  });
});
