import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isPublicAddress } from "./send.ts";

/** The classes again as numbers, so that the test does not rest on the list it tests. */
const CLOSED_V4: readonly [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];

/** Each as its first two groups of 16 bits, which is all that these prefixes take. */
const CLOSED_V6: readonly [number, number, number][] = [
  [0x0000, 0x0000, 16], // ::, ::1, mapped and compatible
  [0x0064, 0xff9b, 32], // NAT64
  [0x0100, 0x0000, 16], // discard
  [0x2001, 0x0000, 32], // Teredo
  [0x2001, 0x0002, 32], // benchmarking
  [0x2001, 0x0010, 28], // ORCHID
  [0x2001, 0x0020, 28],
  [0x2001, 0x0db8, 32], // documentation
  [0x2002, 0x0000, 16], // 6to4
  [0x3fff, 0x0000, 20], // documentation
  [0x5f00, 0x0000, 16], // segment routing
  [0xfc00, 0x0000, 7],
  [0xfe80, 0x0000, 10],
  [0xfec0, 0x0000, 10],
  [0xff00, 0x0000, 8],
];

const numberOf = (dotted: string): number =>
  dotted.split(".").reduce((number, part) => number * 256 + Number(part), 0);
const dottedOf = (number: number): string =>
  [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join(".");
const sharesPrefix = (one: number, other: number, prefix: number): boolean =>
  Math.floor(one / 2 ** (32 - prefix)) === Math.floor(other / 2 ** (32 - prefix));

const isClosedV4 = (number: number): boolean =>
  CLOSED_V4.some(([network, prefix]) => sharesPrefix(number, numberOf(network), prefix));

/** Any 32 bits, with the edges of every closed class far more often than chance would have them. */
const addressV4 = fc.oneof(
  fc.nat({ max: 2 ** 32 - 1 }),
  fc
    .tuple(fc.constantFrom(...CLOSED_V4), fc.boolean(), fc.integer({ min: -2, max: 2 }))
    .map(([[network, prefix], atEnd, offset]) => {
      const edge = numberOf(network) + (atEnd ? 2 ** (32 - prefix) : 0) + offset;
      return Math.min(Math.max(edge, 0), 2 ** 32 - 1);
    }),
);
const groups = (count: number) =>
  fc.array(fc.nat({ max: 0xffff }), { minLength: count, maxLength: count });
const hex = (parts: readonly number[]): string => parts.map((part) => part.toString(16)).join(":");

describe("isPublicAddress", () => {
  test("takes ordinary public addresses", () => {
    for (const ip of [
      "1.1.1.1",
      "8.8.8.8",
      "100.63.255.255",
      "100.128.0.0",
      "172.15.255.255",
      "172.32.0.0",
      "198.17.255.255",
      "223.255.255.255",
      "2606:4700:4700::1111",
      "2a00:1450:4001:82b::200e",
      "2001:4860:4860::8888",
      "2001:200::1",
      "::ffff:8.8.8.8",
      "::ffff:808:808",
    ]) {
      expect(isPublicAddress(ip), ip).toBe(true);
    }
  });

  test("refuses everything else, however it is written", () => {
    for (const ip of [
      "127.0.0.1",
      "0.0.0.0",
      "255.255.255.255",
      "169.254.169.254",
      "168.63.129.16",
      "192.0.0.192",
      "::",
      "::1",
      "0:0:0:0:0:0:0:1",
      "::ffff:127.0.0.1",
      "::FFFF:7F00:1",
      "0:0:0:0:0:ffff:10.0.0.1",
      "::127.0.0.1",
      "::8.8.8.8",
      "64:ff9b::8.8.8.8",
      "64:ff9b:1::1",
      "2001::1",
      "2001:1ff:ffff::1",
      "2001:db8::1",
      "2002:808:808::1",
      "3fff:fff::1",
      "4000::1",
      "5f00::1",
      "fc00::1",
      "fd00:ec2::254",
      "fe80::1",
      "fe80::1%eth0",
      "2606:4700::1%eth0",
      "fec0::1",
      "ff02::1",
    ]) {
      expect(isPublicAddress(ip), ip).toBe(false);
    }
  });

  test("refuses text that is no address", () => {
    for (const text of [
      "",
      "localhost",
      "2130706433",
      "127.1",
      "0177.0.0.1",
      "0x8.8.8.8",
      "[::1]",
    ]) {
      expect(isPublicAddress(text), text).toBe(false);
    }
  });

  test("agrees with arithmetic on every IPv4 address, alone and mapped into IPv6", () => {
    fc.assert(
      fc.property(addressV4, (number) => {
        const isOpen = !isClosedV4(number);
        expect(isPublicAddress(dottedOf(number))).toBe(isOpen);
        expect(isPublicAddress(`::ffff:${dottedOf(number)}`)).toBe(isOpen);
        expect(isPublicAddress(`0:0:0:0:0:ffff:${hex([number >>> 16, number & 0xffff])}`)).toBe(
          isOpen,
        );
      }),
      { numRuns: 2_000 },
    );
  });

  test("refuses every IPv6 address that only carries an IPv4 address", () => {
    const carriers = ["::", "64:ff9b::", "64:ff9b:1::", "2002:102:304::", "2001:0:102:304::"];
    fc.assert(
      fc.property(fc.constantFrom(...carriers), addressV4, (carrier, number) => {
        expect(isPublicAddress(`${carrier}${dottedOf(number)}`)).toBe(false);
      }),
    );
  });

  test("refuses every address of the closed IPv6 classes", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...CLOSED_V6),
        fc.nat({ max: 2 ** 32 - 1 }),
        groups(6),
        ([first, second, prefix], filling, rest) => {
          const free = 2 ** (32 - prefix);
          const head = first * 0x10000 + second + (filling % free);
          // Mapped addresses are judged by what is in them, which the test above is about.
          fc.pre(!(head === 0 && rest[0] === 0 && rest[1] === 0 && rest[3] === 0xffff));
          expect(isPublicAddress(hex([head >>> 16, head & 0xffff, ...rest]))).toBe(false);
        },
      ),
    );
  });

  test("takes IPv6 addresses of 2000::/3 that are in no closed class", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0x2000, max: 0x3fff }), groups(7), (first, rest) => {
        const head = first * 0x10000 + (rest[0] ?? 0);
        fc.pre(!sharesPrefix(head, 0x20010000, 23));
        fc.pre(!CLOSED_V6.some(([a, b, prefix]) => sharesPrefix(head, a * 0x10000 + b, prefix)));
        expect(isPublicAddress(hex([first, ...rest]))).toBe(true);
      }),
    );
  });
});
