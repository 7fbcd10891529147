import { BlockList, isIP } from "node:net";

/** IPv4 that is not globally routable unicast: IANA's special-purpose registry and multicast. */
const NOT_PUBLIC_V4 = blockList("ipv4", [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Also where most clouds keep the credentials of a machine.
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
  // Looks public, but on Azure it is the host that the machine runs on.
  ["168.63.129.16", 32],
]);

const IPV4_MAPPED = blockList("ipv6", [["::ffff:0:0", 96]]);

/** The only IPv6 unicast that is given out; so `::1`, `fc00::`, `64:ff9b::` and others are outside. */
const UNICAST_V6 = blockList("ipv6", [["2000::", 3]]);

/** What lies within it and is not for everybody, or hides an IPv4 address that would need a look. */
const NOT_PUBLIC_V6 = blockList("ipv6", [
  // Protocol assignments, of which Teredo is the first.
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
]);

/**
 * Whether an IP address is globally routable unicast, so that sending to it reaches nothing of our
 * own network. Text that is no address is not public; neither is an address with a zone.
 */
export function isPublicAddress(ip: string): boolean {
  switch (isIP(ip)) {
    case 4:
      return !NOT_PUBLIC_V4.check(ip, "ipv4");
    case 6:
      if (ip.includes("%")) return false;
      // Rules for IPv4 hold for the address inside a mapped one.
      if (IPV4_MAPPED.check(ip, "ipv6")) return !NOT_PUBLIC_V4.check(ip, "ipv6");
      return UNICAST_V6.check(ip, "ipv6") && !NOT_PUBLIC_V6.check(ip, "ipv6");
    default:
      return false;
  }
}

/** Lists of the two families stay apart, since a list may match a mapped address by either. */
function blockList(family: "ipv4" | "ipv6", subnets: readonly [string, number][]): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of subnets) list.addSubnet(network, prefix, family);
  return list;
}
