import { expect, test } from "vitest";
import { hasMaskedSecrets } from "./jobFileText";

test.each([
  ['secrets:\n  token: "******"\n', true],
  ['secrets:\n  token: mine\ndescription: "******"\n', false],
  ["name: a\n", false],
  ["secrets: [", false],
])("%j", (text, hidden) => expect(hasMaskedSecrets(text)).toBe(hidden));
