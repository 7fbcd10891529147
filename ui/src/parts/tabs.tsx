import type { ReactNode } from "react";
import { Link } from "wouter";

/** Views of one thing, each with an address of its own. */
export function Tabs(props: {
  label: string;
  tabs: readonly { text: ReactNode; href: string; isCurrent: boolean }[];
}): ReactNode {
  return (
    <nav aria-label={props.label} className="tabs">
      <ul>
        {props.tabs.map(({ text, href, isCurrent }) => (
          <li key={href}>
            <Link href={href} aria-current={isCurrent ? "page" : undefined}>
              {text}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}
