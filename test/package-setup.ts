import type { TestProject } from "vitest/node";
import { installPackage } from "../scripts/build-package.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The command of the package as it is installed, made of the sources as they are. */
    pawlCommand: string;
    /** Answers with the path of the tarball that is published, once it is made with the page in it. */
    packedUrl: string;
  }
}

/** Has the package at hand as users have it: processes that tests start are those of users. */
export async function setup(project: TestProject): Promise<void> {
  project.provide("pawlCommand", await installPackage());
}
