import { expect, test } from "vitest";
import { withFiles } from "./jobFileText";

test("working files come below extras.skep, and the rest stays as it was", () => {
  const text = "name: a # mine\ncommands:\n  - python train.py --long\n";
  expect(withFiles(text, "ab")).toBe(
    `${text}extras:\n  skep:\n    workingFiles:\n      archive: sha256:ab\n      path: /workspace\n`,
  );
});

test("another archive replaces the first and keeps its path", () => {
  const text = "extras:\n  skep:\n    workingFiles: {archive: 'sha256:ab', path: /code}\n";
  expect(withFiles(text, "cd")).toContain("archive: sha256:cd\n      path: /code\n");
});

test.each(["a: [", "- list", "extras: 3"])("%s is left alone", (text) => {
  expect(withFiles(text, "ab")).toBeNull();
});

test("working files fill an empty section, and JSON keeps its lines", () => {
  expect(withFiles("extras:\nname: a\n", "ab")).toMatch(/^extras:\n {2}skep:\n[^]*\nname: a\n$/);
  expect(withFiles('{\n  "name": "a"\n}', "ab")).toMatch(/^{\n {2}"name": "a",\n {2}"extras": {\n/);
});
