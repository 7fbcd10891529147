import type { Hex } from "viem";
import { bytesToHex, hexToBytes, keccak256 } from "viem/utils";
import type { LogQuery } from "./log-filter.ts";
import type { NodeLog } from "./node-log.ts";

const BLOOM_BYTES = 256;
const BITS_PER_VALUE = 3;
const BITS_MASK = BLOOM_BYTES * 8 - 1;

/**
 * Whether a block with this bloom may have a log that matches the query.
 *
 * A bloom never denies a log that is there. It may announce one that is not, the more often the fuller
 * the block: on a busy chain for every fourth block or so.
 */
export function mayMatch({ addresses, topics }: LogQuery, bloom: Hex): boolean {
  const bits = hexToBytes(bloom);
  const hasAny = (values: readonly Hex[] | null): boolean =>
    values === null || values.some((value) => bitsOf(value).every((bit) => hasBit(bits, bit)));
  return hasAny(addresses) && topics.every(hasAny);
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

/** The bloom of a block that has exactly these logs. */
export function bloomOf(logs: readonly Pick<NodeLog, "address" | "topics">[]): Hex {
  const bits = new Uint8Array(BLOOM_BYTES);
  for (const { address, topics } of logs) {
    for (const bit of [address, ...topics].flatMap(bitsOf)) {
      bits[byteOf(bit)] = (bits[byteOf(bit)] ?? 0) | maskOf(bit);
    }
  }
  return bytesToHex(bits);
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
