import { type ReactNode, useEffect } from "react";
import { Link } from "wouter";

/** A place above the page, for the way back. */
export type Crumb = { text: string; href: string };

/** One page: its title, where it belongs, what can be done there, and what is on it. */
export function Page(props: {
  title: string;
  /** Shown as the heading instead of the title, which stays the window's. */
  heading?: ReactNode;
  crumbs?: readonly Crumb[];
  /** Buttons and links beside the heading. */
  actions?: ReactNode;
  children: ReactNode;
}): ReactNode {
  const { title, heading, crumbs = [], actions, children } = props;
  useEffect(() => {
    document.title = `${title} · Pawl`;
  }, [title]);
  return (
    <>
      <header className="page-header">
        {crumbs.length > 0 && (
          <nav aria-label="Breadcrumbs" className="crumbs">
            <ol>
              {crumbs.map(({ text, href }) => (
                <li key={href}>
                  <Link href={href}>{text}</Link>
                </li>
              ))}
            </ol>
          </nav>
        )}
        <div className="page-heading">
          <h1 tabIndex={-1}>{heading ?? title}</h1>
          {actions !== undefined && <div className="page-actions">{actions}</div>}
        </div>
      </header>
      {children}
    </>
  );
}

/** A part of a page with a heading of its own. */
export function Section(props: {
  title: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}): ReactNode {
  return (
    <section className="section">
      <div className="section-heading">
        <h2>{props.title}</h2>
        {props.actions}
      </div>
      {props.children}
    </section>
  );
}

/** Sections beside each other, where the window is wide enough. */
export function SectionColumns({ children }: { children: ReactNode }): ReactNode {
  return <div className="section-columns">{children}</div>;
}
