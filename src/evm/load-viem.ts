import type * as Viem from "viem/utils";
import { PawlError } from "../kernel/errors.ts";

/** viem, which whoever reads chains installs beside Pawl. Throws CONFIG_INVALID where it is missing. */
export async function loadViem(): Promise<typeof Viem> {
  try {
    return await import("viem/utils");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code !== "ERR_MODULE_NOT_FOUND" || !/'viem['/]/.test(message)) throw cause;
    throw new PawlError(
      "CONFIG_INVALID",
      "pawl/evm needs the package viem, which is not installed. Run `npm install viem` in the project.",
      { cause, details: { package: "viem" } },
    );
  }
}
