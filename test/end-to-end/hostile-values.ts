/** Something that user code may throw, and what its message must hold. */
export type Hostile = { name: string; thrown: () => unknown; says: RegExp };

const bomb = (): never => {
  throw new Error("boom of a getter");
};

/** An object whose every trap throws. */
export function explosiveProxy(target: object): object {
  const traps = [
    "get",
    "has",
    "getPrototypeOf",
    "ownKeys",
    "getOwnPropertyDescriptor",
    "isExtensible",
  ] as const;
  return new Proxy(target, Object.fromEntries(traps.map((trap) => [trap, bomb])));
}

/** An object that can no longer be looked at in any way. */
export function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

/** The name of what makes a thenable, which linters know to look for. */
const THEN = "then" as string;

type Then = (resolve: () => void, reject: (error: Error) => void) => void;

/** An object that is awaited in a way of its own. */
export function thenable(value: object, then: Then): object {
  return Object.assign(value, { [THEN]: then });
}

function errorWith(members: PropertyDescriptorMap): Error {
  return Object.defineProperties(new Error("plain"), members);
}

function cyclicCause(): Error {
  const first = new Error("first of a ring");
  const second = new Error("second of a ring", { cause: first });
  first.cause = second;
  return first;
}

/** What was thrown by code of all kinds, the worst first. */
export const HOSTILE_THROWS: readonly Hostile[] = [
  { name: "null", thrown: () => null, says: /null/ },
  { name: "undefined", thrown: () => undefined, says: /undefined/ },
  { name: "a symbol", thrown: () => Symbol("odd"), says: /odd/ },
  { name: "a bigint", thrown: () => 12n, says: /12/ },
  { name: "a function", thrown: () => bomb, says: /no error/ },
  {
    name: "a message that is no text",
    thrown: () => errorWith({ message: { value: { rows: 7 } } }),
    says: /"rows":7/,
  },
  {
    name: "a message that is a symbol",
    thrown: () => errorWith({ message: { value: Symbol("odd") } }),
    says: /odd/,
  },
  {
    name: "a message that cannot be read",
    thrown: () => errorWith({ message: { get: bomb } }),
    says: /message/,
  },
  {
    name: "a name that is no text",
    thrown: () => errorWith({ name: { value: Symbol("odd") } }),
    says: /plain/,
  },
  {
    name: "a name that cannot be read",
    thrown: () => errorWith({ name: { get: bomb } }),
    says: /plain/,
  },
  {
    name: "a stack that is no text",
    thrown: () => errorWith({ stack: { value: 5 } }),
    says: /plain/,
  },
  {
    name: "a stack that cannot be read",
    thrown: () => errorWith({ stack: { get: bomb } }),
    says: /plain/,
  },
  {
    name: "a code that cannot be read",
    thrown: () => errorWith({ code: { get: bomb } }),
    says: /plain/,
  },
  {
    name: "a code that is a symbol",
    thrown: () => errorWith({ code: { value: Symbol("c") } }),
    says: /plain/,
  },
  {
    name: "a cause that cannot be read",
    thrown: () => errorWith({ cause: { get: bomb } }),
    says: /plain/,
  },
  {
    name: "a cause whose message is no text",
    thrown: () => new Error("plain", { cause: errorWith({ message: { value: null } }) }),
    says: /plain/,
  },
  { name: "causes in a ring", thrown: cyclicCause, says: /first of a ring/ },
  { name: "a huge message", thrown: () => new Error("x".repeat(30_000_000)), says: /xxx/ },
  { name: "a huge text", thrown: () => "x".repeat(30_000_000), says: /xxx/ },
  {
    name: "a huge object",
    thrown: () => ({ all: Array.from({ length: 100_000 }, () => ({ a: 1 })) }),
    says: /all/,
  },
  { name: "halves of characters", thrown: () => new Error("half \ud800 and \u0000"), says: /half/ },
  {
    name: "a proxy of an error",
    thrown: () => new Proxy(new Error("behind a proxy"), {}),
    says: /behind a proxy/,
  },
  { name: "a proxy that explodes", thrown: () => explosiveProxy(new Error("x")), says: /./ },
  { name: "a proxy that is revoked", thrown: () => revoked(new Error("x")), says: /./ },
  {
    name: "an object without a prototype",
    thrown: () => Object.assign(Object.create(null) as object, { rows: 7 }),
    says: /rows/,
  },
  {
    name: "an object whose toString and toJSON throw",
    thrown: () => ({ toString: bomb, toJSON: bomb, [Symbol.toPrimitive]: bomb }),
    says: /./,
  },
  {
    name: "an object in a ring",
    thrown: () => {
      const ring: Record<string, unknown> = { rows: 7 };
      ring["self"] = ring;
      return ring;
    },
    says: /rows/,
  },
];

/** What functions return that is no proper result; each is a failure, in words. */
export const HOSTILE_RETURNS: readonly { name: string; returned: () => unknown; says: RegExp }[] = [
  {
    name: "metadata that cannot be read",
    returned: () => Object.defineProperty({}, "metadata", { get: bomb }),
    says: /boom of a getter/,
  },
  {
    name: "metadata with a member that cannot be read",
    returned: () => ({
      metadata: Object.defineProperty({}, "rows", { get: bomb, enumerable: true }),
    }),
    says: /boom of a getter/,
  },
  {
    name: "metadata whose toJSON throws",
    returned: () => ({ metadata: { rows: { toJSON: bomb } } }),
    says: /boom of a getter/,
  },
  {
    name: "metadata that explodes",
    returned: () => ({ metadata: explosiveProxy({}) }),
    says: /boom of a getter/,
  },
  { name: "a result that explodes", returned: () => explosiveProxy({}), says: /boom of a getter/ },
  { name: "a result that is revoked", returned: () => revoked({}), says: /revoked/ },
  {
    name: "a promise of a result that is revoked",
    returned: async () => {
      const result = { metadata: revoked({}) };
      return result;
    },
    says: /revoked/,
  },
  { name: "a thenable that throws", returned: () => thenable({}, bomb), says: /boom of a getter/ },
  {
    name: "a thenable that cannot be read",
    returned: () => Object.defineProperty({}, THEN, { get: bomb }),
    says: /boom of a getter/,
  },
  {
    name: "a thenable that settles twice",
    returned: () =>
      thenable({}, (resolve, reject) => {
        reject(new Error("the first word"));
        resolve();
      }),
    says: /the first word/,
  },
  {
    name: "a promise whose then throws",
    returned: () => thenable(Promise.resolve(), bomb),
    says: /boom of a getter/,
  },
];
