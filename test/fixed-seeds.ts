import fc from "fast-check";

/*
 * Properties draw the same cases each time, so that a run of the tests can be repeated. Fresh ones are
 * for campaigns, which name the seed (`npm run test:long`).
 */
fc.configureGlobal({ seed: Number(process.env["PAWL_TEST_SEED"] ?? 1) });
