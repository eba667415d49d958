import { expect, test } from "vitest";
import { safeLocalPath } from "./LoginPage";

test.each([
  [undefined, undefined],
  ["/jobs?state=RUNNING", "/jobs?state=RUNNING"],
  ["//evil.example/x", undefined],
  ["https://evil.example", undefined],
  ["javascript:alert(1)", undefined],
  ["/login?next=/login", undefined],
  ["http://[", undefined],
])("after a login %j leads to %j", (next, path) => expect(safeLocalPath(next)).toBe(path));
