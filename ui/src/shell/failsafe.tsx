import { Component, type ReactNode } from "react";
import { Notice } from "../parts/notice.tsx";
import { Page } from "../parts/page.tsx";

/** Shows that a page broke instead of showing nothing; the rest goes on. */
export class Failsafe extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return (
      <Page title="This page broke">
        <Notice tone="bad">
          <p>
            Something on this page went wrong. Your data is not affected. Reload the page; if that
            does not help, use the command line.
          </p>
          <button type="button" className="button" onClick={() => window.location.reload()}>
            Reload
          </button>
        </Notice>
      </Page>
    );
  }
}
