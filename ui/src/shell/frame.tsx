import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { Link, useLocation } from "wouter";
import type { LiveUpdates } from "../api/live-updates.ts";
import { useSession } from "../api/session.ts";
import { useAnswer } from "../api/use-answer.ts";
import { kindHref, kindTitle } from "../parts/kind-names.ts";
import { Account } from "./account.tsx";
import { useShortcuts } from "./use-shortcuts.tsx";

/** The parts of the page, in the order of the menu; the letter goes there after `g`. */
export const PLACES = [
  { href: "/", text: "Overview", letter: "o" },
  { href: "/backfills", text: "Backfills", letter: "b" },
  { href: "/assets", text: "Assets", letter: "a" },
  { href: "/runs", text: "Runs", letter: "r" },
  { href: "/schedules", text: "Schedules", letter: "s" },
  { href: "/sensors", text: "Sensors", letter: "e" },
  { href: "/webhooks", text: "Webhooks", letter: "w" },
  { href: "/syncs", text: "Syncs", letter: "y" },
  { href: "/moves", text: "Moves", letter: "m" },
  { href: "/splits", text: "Splits", letter: "p" },
  { href: "/routing", text: "Routing", letter: "t" },
  { href: "/conflicts", text: "Conflicts", letter: "c" },
  { href: "/ledger", text: "Ledger", letter: "l" },
] as const;

/** What stands around every page: the menu, who looks, and whether it is live. */
export function Frame({ live, children }: { live: LiveUpdates; children: ReactNode }): ReactNode {
  const [location] = useLocation();
  const [isMenuOpen, setIsMenuOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const shown = useRef(location);
  useEffect(() => {
    if (shown.current === location) return;
    shown.current = location;
    setIsMenuOpen(false);
    // Whoever listens rather than looks hears where they are now, unless it is still on its way.
    const heading = main.current?.querySelector("h1") ?? main.current;
    heading?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [location]);
  const help = useShortcuts(PLACES);
  const kinds = useAnswer("listKinds", {});
  const more = (kinds.data?.items ?? []).map(({ kind }) => ({
    href: kindHref(kind),
    text: kindTitle(kind),
  }));
  return (
    <div className="frame">
      <a className="skip" href="#content">
        Skip to content
      </a>
      <header className="bar">
        <Link href="/" className="brand">
          <img src="/pawl.svg" alt="" width="24" height="24" />
          Pawl
        </Link>
        <button
          type="button"
          className="button menu-button"
          aria-expanded={isMenuOpen}
          aria-controls="menu"
          onClick={() => setIsMenuOpen(!isMenuOpen)}
        >
          Menu
        </button>
        <Workspace />
        <LiveSign live={live} />
        {help}
        <Account />
      </header>
      <nav id="menu" aria-label="Main" className={isMenuOpen ? "menu menu-open" : "menu"}>
        <ul>
          {[...PLACES, ...more].map(({ href, text }) => (
            <li key={href}>
              <Link href={href} aria-current={isWithin(location, href) ? "page" : undefined}>
                {text}
              </Link>
            </li>
          ))}
        </ul>
        <p className="menu-foot">
          <a href="/docs">API</a> <a href="/metrics">Metrics</a>
        </p>
      </nav>
      <main id="content" ref={main} tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function isWithin(location: string, href: string): boolean {
  // An asset may have any name, so what is about all of them has an address beside theirs.
  if (location === "/lineage") return href === "/assets";
  return href === "/" ? location === "/" : location === href || location.startsWith(`${href}/`);
}

function Workspace(): ReactNode {
  const { tenant_id, workspace_id } = useSession();
  if (tenant_id === "default" && workspace_id === "default") return <span className="workspace" />;
  return (
    <span className="workspace" title="Tenant and workspace">
      {tenant_id} / {workspace_id}
    </span>
  );
}

const LIVE_TEXTS = {
  live: "Live",
  connecting: "Connecting…",
  asleep: "Paused",
} as const;

function LiveSign({ live }: { live: LiveUpdates }): ReactNode {
  const state = useSyncExternalStore(live.subscribe, () => live.state);
  return (
    <span className={`live live-${state}`} role="status">
      {LIVE_TEXTS[state]}
    </span>
  );
}
