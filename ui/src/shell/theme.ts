/** How the page looks: as the machine says, or as its user chose. */
export type Theme = "auto" | "light" | "dark";

const KEY = "pawl-theme";

/** The theme that was chosen on this machine. */
export function storedTheme(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "auto";
}

/** Shows the page in a theme, and keeps the choice. */
export function applyTheme(theme: Theme): void {
  if (theme === "auto") {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset["theme"];
  } else {
    localStorage.setItem(KEY, theme);
    document.documentElement.dataset["theme"] = theme;
  }
  document.dispatchEvent(new Event("themechange"));
}
