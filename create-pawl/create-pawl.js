#!/usr/bin/env node
// `npm create pawl` is `pawl init`: the same arguments, in the version that this package depends on.
"use strict";

const path = require("node:path");

process.argv.splice(2, 0, "init");
require(path.join(path.dirname(require.resolve("pawl/package.json")), "bin", "pawl"));
