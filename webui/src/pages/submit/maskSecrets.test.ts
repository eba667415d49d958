import { expect, test } from "vitest";
import { parse } from "yaml";
import { hasMaskedSecrets, maskSecrets } from "./jobFileText";

const KEY = "hunter2";

test.each([
  `name: a\nsecrets:\n  token: ${KEY}\n`,
  `secrets: {token: "${KEY}", more: ['${KEY}', {deep: ${KEY}}]}\nname: a\n`,
  `name: a\nsecrets:\n  token: |\n    line one\n    ${KEY}\nextras: {}\n`,
  `name: a\nsecrets:\n  token: >-\n    folded\n    ${KEY}`,
  `"secrets":\n  token: ${KEY} # a comment\n`,
  `name: a\nprerequisites:\n  - name: i\n    uri: x\n    auth:\n      username: u\n      password: ${KEY}\n`,
  `prerequisites: [{name: i, auth: {password: ${KEY}}}]\n`,
  `secrets:\n  number: 12345\n  token: ${KEY}\n`,
])("finding_s21: the draft that is kept has no secret in it: %j", (text) => {
  const kept = maskSecrets(text) ?? "";
  expect(kept).not.toContain(KEY);
  expect(kept).not.toContain("12345");
  expect(Object.keys(parse(kept) as object)).toEqual(Object.keys(parse(text) as object));
});

test.each([
  `secrets:\n  token: ${KEY}\n broken: [`,
  `extras: {x: &k ${KEY}}\nsecrets:\n  token: *k\n`,
  `x: &s {token: ${KEY}}\nsecrets: *s\n`,
  `x: &p [{auth: {password: ${KEY}}}]\nprerequisites: *p\n`,
])("finding_s21: what cannot be distinguished is not kept at all: %j", (text) => {
  expect(maskSecrets(text)).toBeNull();
});

test("a file without secrets is kept as it was typed", () => {
  const text = "name:   a # mine\ntaskRoles: {}\n  broken";
  expect(maskSecrets(text)).toBe(text);
});

test("what was covered is asked for again when the draft comes back", () => {
  expect(hasMaskedSecrets(maskSecrets(`secrets:\n  token: ${KEY}\n`) ?? "")).toBe(true);
});
