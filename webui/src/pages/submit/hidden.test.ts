import { expect, test } from "vitest";
import { hasHiddenSecrets } from "./hidden";

test.each([
  ['secrets:\n  token: "******"\n', true],
  ['secrets:\n  token: mine\ndescription: "******"\n', false],
  ["name: a\n", false],
  ["secrets: [", false],
])("%j", (text, hidden) => expect(hasHiddenSecrets(text)).toBe(hidden));
