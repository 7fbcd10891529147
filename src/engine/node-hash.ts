import { createHmac, hash } from "node:crypto";
import type { Hash } from "../core/hash.ts";

/** The hash functions of the platform. */
export const nodeHash: Hash = {
  sha256: (text) => hash("sha256", text, "hex"),
  hmacSha256: (secret, text) => createHmac("sha256", secret).update(text).digest(),
};
