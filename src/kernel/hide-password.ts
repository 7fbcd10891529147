/** Parameters of an address that are as good as a password. */
const SECRET_PARAMETER = /([?&][^=&]*(?:password|passwd|token|secret|key)[^=&]*=)[^&\s"']*/gi;

/** What stands where a port would and is none, to the end: the host is missing, or the `@` before it. */
const NO_PORT = /^(["']?[a-z][a-z0-9+.-]*:\/{1,2}[^[:/?#\s]+):(?!\d{0,5}(?:[/?#"'\s]|$)).+$/is;

/**
 * An address without its password, for messages and logs. It need not be a good one: whatever stands
 * between the first colon behind the scheme and the last `@` is taken for the password, so that one
 * with `@`, `/` or `#` in it, which makes the address unreadable, is not shown either.
 */
export function hidePassword(address: string): string {
  const shown = address.replace(SECRET_PARAMETER, "$1…");
  const at = shown.lastIndexOf("@");
  if (at < 0) return shown.replace(NO_PORT, "$1:…");
  const scheme = /^["']?[a-z][a-z0-9+.-]*:\/{1,2}/i.exec(shown)?.[0].length ?? 0;
  const user = shown.slice(scheme, at);
  const colon = user.indexOf(":");
  return colon < 0 ? shown : `${shown.slice(0, scheme)}${user.slice(0, colon)}:…${shown.slice(at)}`;
}
