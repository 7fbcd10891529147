/** Hash functions, handed in by the outer layers so that this layer needs no platform. */
export interface Hash {
  /** The SHA-256 of the UTF-8 text, as lower-case hex. */
  sha256(text: string): string;
  /** The HMAC-SHA256 of the UTF-8 text under the secret (UTF-8), as raw bytes. */
  hmacSha256(secret: string, text: string): Uint8Array;
}
