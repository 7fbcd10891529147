import type { Page } from "playwright-core";

/** Goes from control to control as one without a mouse does. */
export async function tabTo(
  page: Page,
  role: "button" | "link" | "textbox" | "combobox",
  name: string,
): Promise<void> {
  const target = page.getByRole(role, { name, exact: true }).last();
  await target.waitFor();
  for (let stop = 0; stop < 150; stop++) {
    if (await target.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`The ${role} ${name} cannot be reached by the keyboard`);
}

/** Opens what a button asks, and answers it, by keys alone. */
export async function doByKeys(page: Page, name: string, reason?: string): Promise<void> {
  await tabTo(page, "button", name);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name });
  await dialog.waitFor();
  if (reason !== undefined) {
    await tabTo(page, "textbox", "Reason (for the record)");
    await page.keyboard.type(reason);
  }
  await tabTo(page, "button", name);
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
}
