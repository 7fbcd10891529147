import type { Hex } from "viem";
import { hexToBytes, keccak256 } from "viem/utils";
import type { LogQuery } from "./log-filter.ts";
import type { NodeLog } from "./node-log.ts";

const BLOOM_BYTES = 256;
const BITS_PER_VALUE = 3;
const BITS_MASK = BLOOM_BYTES * 8 - 1;

/**
 * Tells for each bloom whether its block may have a log that matches the query.
 *
 * A bloom never denies a log that is there. It may announce one that is not, the more often the
 * fuller the block: on a busy chain for every fourth block or so.
 */
export function announces({ addresses, topics }: LogQuery): (bloom: Hex) => boolean {
  const wanted = [addresses, ...topics]
    .filter((values) => values !== null)
    .map((values) => values.map(bitsOf));
  return (bloom) => {
    const bits = hexToBytes(bloom);
    return wanted.every((values) =>
      values.some((value) => value.every((bit) => hasBit(bits, bit))),
    );
  };
}

/** Whether these logs account for everything that a bloom announces, so that none is missing. */
export function explainsBloom(logs: readonly NodeLog[], bloom: Hex): boolean {
  const left = hexToBytes(bloom);
  for (const value of new Set(logs.flatMap(({ address, topics }) => [address, ...topics]))) {
    for (const bit of bitsOf(value)) clearBit(left, bit);
  }
  // Logs beyond the bloom are fine: some chains have system logs that their headers do not count.
  return left.every((byte) => byte === 0);
}

/** The three bits that stand for an address or a topic. */
function bitsOf(value: Hex): number[] {
  const hash = keccak256(value, "bytes");
  return Array.from({ length: BITS_PER_VALUE }, (_, index) => {
    return (((hash[2 * index] ?? 0) << 8) | (hash[2 * index + 1] ?? 0)) & BITS_MASK;
  });
}

/** Bits are counted from the end. */
const byteOf = (bit: number): number => BLOOM_BYTES - 1 - (bit >> 3);
const maskOf = (bit: number): number => 1 << (bit & 7);

function hasBit(bits: Uint8Array, bit: number): boolean {
  return ((bits[byteOf(bit)] ?? 0) & maskOf(bit)) !== 0;
}

function clearBit(bits: Uint8Array, bit: number): void {
  bits[byteOf(bit)] = (bits[byteOf(bit)] ?? 0) & ~maskOf(bit);
}
