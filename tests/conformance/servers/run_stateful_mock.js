// Runs stripe-stateful-mock on loopback; by itself it listens on every address of the machine.
"use strict";

const { createExpressApp } = require("stripe-stateful-mock");

const server = createExpressApp().listen(0, "127.0.0.1", () => {
  console.log(`stripe-stateful-mock: http://127.0.0.1:${server.address().port}`);
});

// End with the test that started it.
process.stdin.on("end", () => process.exit(0)).resume();
