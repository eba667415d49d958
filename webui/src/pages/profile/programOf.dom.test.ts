import { expect, test } from "vitest";
import { programOf } from "./programOf";

test.each([
  [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/130.0 Safari/537.36",
    "Chrome on Linux",
  ],
  ["Mozilla/5.0 (Windows NT 10.0) Chrome/130.0 Safari/537.36 Edg/130.0", "Edge on Windows"],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
    "Safari on iOS",
  ],
  ["curl/8.0 something", "curl/8.0"],
  ["", "Unknown program"],
])("%s is %s", (agent, words) => {
  expect(programOf(agent)).toBe(words);
});
